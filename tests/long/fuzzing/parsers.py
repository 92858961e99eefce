"""Hypothesis on the parsers of names, DS records, DNSKEYs and DNS packets: any input is read, the same way
again, or refused in words.
"""

import asyncio
import math
import time
from collections.abc import Callable

import dns.message
import dns.name
import dns.rdata
from hypothesis import HealthCheck, Phase, given, seed, settings
from hypothesis import strategies as st
from hypothesis.strategies import SearchStrategy

from long.fuzzing.hostile_pieces import HOSTILE_TEXTS
from long.fuzzing.packets import Packets, allowed_bytes, expects_answer
from sublet.dns.ds import InvalidDs, parse_ds
from sublet.dns.names import InvalidName, parse_domain_name, parse_host_name, parse_label
from sublet.dns.nameserver import NameServer
from sublet.dns.types import Dnskey, DsLike, DsRecord
from support.in_memory_zone import RECORDS, reader_of

OWNER = "foo.example.test"
_WORDS = [
    *(
        "257",
        "256",
        "3",
        "13",
        "8",
        "2",
        "4",
        "DS",
        "DNSKEY",
        "IN",
        "CH",
        "3600",
        "@",
        OWNER,
        f"{OWNER}.",
        "other.example.",
    ),
    *(
        "2371",
        "65536",
        "-1",
        "ab" * 32,
        "AB" * 48,
        "l02Woi0iS8Aa25FQkUd9RMzZHJpBoRQwAQEX1SxZJA4=",
        "AwEAAQ==",
        ";",
        "(",
        ")",
        "\n",
        "\\",
    ),
]
_HOSTILE = st.sampled_from([text[:3000] for text in HOSTILE_TEXTS])
_LABELS = (
    st.text(max_size=70)
    | st.from_regex(r"[a-z0-9-]{1,64}", fullmatch=True)
    | st.from_regex(r"xn--[a-z0-9-]{0,20}", fullmatch=True)
)
NAMES: SearchStrategy[str] = (
    st.lists(_LABELS | _HOSTILE, max_size=6).map(".".join) | st.text(max_size=300) | _HOSTILE
)
_NUMBERS = st.integers(0, 16) | st.integers(-1, 2**17)
DS_INPUTS: SearchStrategy[DsLike] = st.one_of(
    st.text(max_size=120),
    st.lists(st.sampled_from(_WORDS) | _HOSTILE, max_size=10).map(" ".join),
    st.builds(
        DsRecord, _NUMBERS, _NUMBERS, _NUMBERS, st.text("0123456789abcdefABCDEF xg", max_size=100) | _HOSTILE
    ),
    st.builds(
        Dnskey,
        st.sampled_from([256, 257, 385]) | _NUMBERS,
        st.just(3) | _NUMBERS,
        _NUMBERS,
        st.text("ABCDwxyz0189+/= ", max_size=120) | st.sampled_from(_WORDS) | _HOSTILE,
    ),
)
PACKETS: SearchStrategy[bytes] = st.one_of(
    st.binary(max_size=600),
    st.builds(
        lambda number: Packets(number, ["zone.example", "a.zone.example"]).draw()[1], st.integers(0, 2**32)
    ),
    st.builds(lambda tail: bytes(5) + b"\1" + bytes(6) + tail, st.binary(max_size=300)),
)


def check_name(text: str) -> None:
    """A name is canonical, fits the wire, and is parsed as itself; or it is refused with a printable
    sentence.
    """
    for parse in (parse_label, parse_domain_name, parse_host_name):
        try:
            name = parse(text)
        except InvalidName as refused:
            str(refused).encode()
            continue
        assert name == name.lower() == parse(name)
        assert not name.endswith(".")
        assert dns.name.from_text(name).to_text(omit_final_dot=True) == name


def check_ds(given_ds: DsLike) -> None:
    """A DS record is valid for dnspython, and is parsed as itself; or it is refused with a sentence."""
    try:
        record = parse_ds(OWNER, given_ds)
    except InvalidDs as refused:
        str(refused).encode()
        return
    text = f"{record.key_tag} {record.algorithm} {record.digest_type} {record.digest}"
    assert parse_ds(OWNER, text) == record
    assert dns.rdata.from_text("IN", "DS", text).to_text().replace(" ", "") == text.replace(" ", "")


def check_packet(packet: bytes) -> None:
    """A query gets an answer that is valid and small enough for UDP; other packets get none."""
    answer = asyncio.run(_reply(packet))
    assert (answer is not None) == expects_answer(packet)
    if answer is not None:
        assert len(answer) <= allowed_bytes(packet)
        read = dns.message.from_wire(answer, keyring=False)
        assert read.to_wire()[:2] == packet[:2]


async def _reply(packet: bytes) -> bytes | None:
    (reply,) = await NameServer(reader_of(RECORDS))._reply([packet], over_tcp=False)
    return reply


ROUND = 2000
"""Inputs of one run of hypothesis, between which the time is looked at."""
PARSERS: dict[str, tuple[SearchStrategy[object], Callable[..., None]]] = {
    "names": (NAMES, check_name),
    "DS and DNSKEY": (DS_INPUTS, check_ds),
    "packets": (PACKETS, check_packet),
}


def run_parser(parser: str, first_seed: int, count: int, seconds: float = math.inf) -> int:
    """Parse `count` drawn inputs, or as many as the time allows; return their number.

    Raises an error with the smallest input that fails.
    """
    ends_at = time.monotonic() + seconds
    done = 0
    while done < count and time.monotonic() < ends_at:
        _run_round(parser, first_seed + done, min(ROUND, count - done))
        done += min(ROUND, count - done)
    return done


def _run_round(parser: str, first_seed: int, count: int) -> None:
    strategy, check = PARSERS[parser]

    @seed(first_seed)
    @settings(
        max_examples=count,
        database=None,
        deadline=None,
        phases=[Phase.generate, Phase.shrink],
        suppress_health_check=list(HealthCheck),
    )
    @given(strategy)
    def run(drawn: object) -> None:
        check(drawn)

    run()
