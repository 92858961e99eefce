"""Random RRsets for the rule of records: mostly valid, some nearly, some not."""

from hypothesis import strategies as st
from hypothesis.strategies import SearchStrategy

from sublet.dns.types import RecordSetInput

_LABEL = st.from_regex(r"[a-z0-9_-]{1,8}", fullmatch=True) | st.sampled_from(
    ["www", "_acme-challenge", "xn--bcher-kva", "a" * 63]
)
_TEXT = st.text(st.characters(codec="utf-8", exclude_categories=["Cc"]), max_size=40)
_NUMBER = st.integers(0, 65_535)
_HEX = st.binary(min_size=32, max_size=32).map(bytes.hex)
_HOST = st.lists(_LABEL, min_size=2, max_size=4).map(".".join) | st.sampled_from(
    ["@", ".", "a.example", "A.Example."]
)


def _joined(*parts: SearchStrategy[object]) -> SearchStrategy[str]:
    return st.tuples(*parts).map(lambda values: " ".join(map(str, values)))


def _quoted(octets: bytes) -> str:
    return '"' + "".join(f"\\{octet:03d}" if octet % 3 else chr(octet % 26 + 97) for octet in octets) + '"'


_PARAMETERS = st.lists(
    st.sampled_from(
        [
            "alpn=h2,h3",
            "no-default-alpn",
            "port=8443",
            "ipv4hint=8.8.8.8",
            "ipv6hint=2a00::1,2a00::2",
            "key700=a\\010",
            "mandatory=port",
        ]
    ),
    max_size=3,
    unique=True,
).map(" ".join)
VALUES: dict[str, SearchStrategy[str]] = {
    "A": st.ip_addresses(v=4).map(str),
    "AAAA": st.ip_addresses(v=6).map(str),
    "CAA": _joined(
        st.sampled_from([0, 128]),
        st.sampled_from(["issue", "issuewild", "iodef", "x1"]),
        st.binary(max_size=20).map(_quoted),
    ),
    "CNAME": _HOST,
    "HTTPS": _joined(st.integers(0, 3), _HOST, _PARAMETERS),
    "MX": _joined(_NUMBER, _HOST),
    "SRV": _joined(_NUMBER, _NUMBER, _NUMBER, _HOST),
    "SSHFP": _joined(st.sampled_from([1, 4, 6]), st.just(2), _HEX),
    "SVCB": _joined(st.integers(0, 3), _HOST, _PARAMETERS),
    "TLSA": _joined(st.integers(0, 3), st.integers(0, 1), st.just(1), _HEX),
    "TXT": _TEXT | st.lists(st.binary(max_size=300).map(_quoted), min_size=1, max_size=3).map(" ".join),
}
"""Values of each type that are nearly always valid."""
OWNERS = st.sampled_from(["@", "*", "*.dev", "www"]) | st.lists(_LABEL, min_size=1, max_size=3).map(".".join)


@st.composite
def record_sets(draw: st.DrawFn, fqdn: str) -> list[RecordSetInput]:
    """Return a strategy for a few RRsets of a name. Most lists are valid."""
    keys = draw(st.lists(st.tuples(OWNERS, st.sampled_from(sorted(VALUES))), max_size=4, unique=True))
    return [
        RecordSetInput(
            draw(st.sampled_from([owner, f"{owner}.{fqdn}." if owner != "@" else f"{fqdn}."])),
            type_name,
            tuple(
                draw(
                    st.lists(
                        VALUES[type_name], min_size=1, max_size=1 if type_name == "CNAME" else 3, unique=True
                    )
                )
            ),
            draw(st.none() | st.integers(60, 86_400)),
        )
        for owner, type_name in keys
    ]
