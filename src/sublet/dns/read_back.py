"""What a server serves for single delegations at this moment, read over the network: after publishing, and when a user asks."""

import asyncio
import secrets
import struct
from collections.abc import AsyncIterator, Iterator, Mapping, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass

import dns.exception
import dns.flags
import dns.rcode
import dns.rdataclass
import dns.rdatatype

from sublet.dns.names import is_at_or_below
from sublet.dns.tcp import ConnectionFailed, Streams, connected, read_message
from sublet.dns.types import Record
from sublet.dns.verify import DELEGATION_TYPES
from sublet.dns.wire import (
    ADDITIONAL,
    ANSWER,
    AUTHORITY,
    HEADER_BYTES,
    MALFORMED,
    after_name,
    read_name,
    read_record,
    walk,
)
from sublet.primaries.plan import RECORD_TYPES

WINDOW_QUERIES = 100
"""How many queries are under way at once on the one connection."""

_ABOUT_DS = frozenset({dns.rdatatype.DS, dns.rdatatype.NSEC, dns.rdatatype.NSEC3})
_CODES = {each: int(dns.rdatatype.from_text(each)) for each in (*RECORD_TYPES, "SOA")}
_LOOKED_AT = frozenset(_CODES.values())
_OPCODE = 0x7800
_DO = 0x8000
_PAYLOAD_BYTES = 1232


class ReadBackFailed(Exception):  # noqa: N818 - named for what the caller sees: nothing is known of what is served
    """The server can't be reached, stalls, or answers in a way that says nothing of its zone; one sentence tells which.

    `cause` says it without the server's address: "unreachable" (no connection), "no_answer" (not in time, or the connection was
    closed), "bad_response".
    """

    def __init__(self, sentence: str, cause: str = "bad_response") -> None:
        super().__init__(sentence)
        self.cause = cause


class _BadResponse(Exception):  # noqa: N818 - its text goes on after the server's name
    """A response that nothing can be read from."""


@dataclass(frozen=True, slots=True)
class _Question:
    owner: str
    rdtype: str
    left_over: bool
    """Asked to find what should be gone; otherwise to read a delegation."""


async def read_back(
    address: tuple[str, int],
    names: Sequence[str],
    *,
    timeout_seconds: float,
    also_absent: Sequence[str] = (),
    referrals_have_ds: bool = False,
) -> Mapping[str, tuple[Record, ...]]:
    """What a server serves for the delegations at names, and what it still has at owners that should be empty.

    `address` is the server's host and port; all is asked over one TCP connection, which gets `timeout_seconds` for the whole.
    Names are in lower case without the final dot. The result has every name of `names` and of `also_absent`:

    - for a name of `names`: its NS records and, of their hosts at or below the name, the A and AAAA records, both
      from the referral; and its DS records. Nothing there (NXDOMAIN, NODATA, another kind of record): an empty tuple.
    - for an owner of `also_absent`: its own NS, DS, A and AAAA records wherever in a response they turn up; empty is good.
    - for one in both: all of these.

    `referrals_have_ds` tells of a server that puts the DS records into each referral, also where its zone is unsigned: it is not asked
    for them once more. Nothing in such a referral says so; of a server that nobody knows it is not to be believed.

    Raises ReadBackFailed, in this order: no connection; a response that is no answer to the question asked (id, question,
    form) or is truncated; a code other than NOERROR and NXDOMAIN; neither authority nor a referral for the name (a server that
    does not hold the zone); the time is over.

    Not seen: an address left below a name that is still delegated (no response shows it, a transfer does: `compare_zone`).
    Not told apart: an address at an owner of `also_absent` that a wildcard of the zone makes (ask for the wildcard's too, and
    compare); NS records of a delegation and those of the child zone itself, where the server holds that too and answers from it.
    """
    questions = [_Question(name, "NS", left_over=False) for name in names]
    questions += [_Question(owner, "A", left_over=True) for owner in also_absent]
    served: dict[str, set[Record]] = {name: set() for name in (*names, *also_absent)}
    async with _connection(address, timeout_seconds) as streams:
        # A signed zone's referral tells of the DS too, and NXDOMAIN of all types: most need no second question.
        left_open = await _ask_all(*streams, questions, served, referrals_have_ds=referrals_have_ds)
        await _ask_all(*streams, [more for each in left_open for more in _further(each)], served)
    return {name: tuple(sorted(records)) for name, records in served.items()}


def _further(question: _Question) -> Iterator[_Question]:
    """What else is to be asked where the first question left something open."""
    for rdtype in ("NS", "DS", "AAAA") if question.left_over else ("DS",):
        yield _Question(question.owner, rdtype, left_over=question.left_over)


@dataclass(frozen=True, slots=True)
class Served:
    """What a server serves for one name at one moment: the serial of its zone, and the records."""

    serial: int
    records: tuple[Record, ...]


async def read_delegation(
    address: tuple[str, int],
    zone: str,
    name: str,
    *,
    timeout_seconds: float,
    also_absent: Sequence[str] = (),
) -> Served:
    """What a server serves for the delegation at one name below `zone`, with the zone's serial, all over one TCP connection.

    The records are those of `read_back` for the name, and what is left at the owners of `also_absent`, but for what a wildcard of the
    zone makes there (RFC 4592, section 3.3.1): that is nobody's leftover.

    Raises ReadBackFailed as `read_back`, also where the server has no authority for the zone itself.
    """
    questions = [_Question(zone, "SOA", left_over=False)]
    questions += [_Question(name, rdtype, left_over=False) for rdtype in ("NS", "DS")]
    questions += [
        _Question(owner, rdtype, left_over=True) for owner in also_absent for rdtype in RECORD_TYPES
    ]
    served: dict[str, set[Record]] = {each.owner: set() for each in questions}
    async with _connection(address, timeout_seconds) as streams:
        await _ask_all(*streams, questions, served)
        if any(served[owner] for owner in also_absent):
            wildcard = await _read_wildcard(*streams, zone)
            for owner in also_absent:
                served[owner] = {each for each in served[owner] if _value(each) not in wildcard}
        serials = [int(record.rdata.split()[2]) for record in served.pop(zone) if record.type == "SOA"]
        if len(serials) != 1:
            raise _BadResponse(f"has no SOA record at {zone}")
    return Served(serials[0], tuple(sorted(set().union(*served.values()))))


async def _read_wildcard(
    reader: asyncio.StreamReader, writer: asyncio.StreamWriter, zone: str
) -> set[tuple[str, int, str]]:
    """What the wildcard of a zone makes at any owner that is not there: its records without their owner."""
    owner = f"*.{zone}"
    served: dict[str, set[Record]] = {owner: set()}
    questions = [_Question(owner, rdtype, left_over=True) for rdtype in RECORD_TYPES]
    await _ask_all(reader, writer, questions, served)
    return {_value(each) for each in served[owner]}


def _value(record: Record) -> tuple[str, int, str]:
    return record.type, record.ttl_seconds, record.rdata


@asynccontextmanager
async def _connection(address: tuple[str, int], timeout_seconds: float) -> AsyncIterator[Streams]:
    """Open a TCP connection, and tell by ReadBackFailed what goes wrong on it and with what comes over it."""
    server = f"[{address[0]}]:{address[1]}" if ":" in address[0] else f"{address[0]}:{address[1]}"
    try:
        async with connected(address, timeout_seconds) as streams:
            yield streams
    except ConnectionFailed as failure:
        raise ReadBackFailed(f"{server} {failure}.", failure.cause) from failure
    except _BadResponse as error:
        raise ReadBackFailed(f"{server} {error}.") from None


async def _ask_all(
    reader: asyncio.StreamReader,
    writer: asyncio.StreamWriter,
    questions: Sequence[_Question],
    served: Mapping[str, set[Record]],
    *,
    referrals_have_ds: bool = False,
) -> list[_Question]:
    """Ask a window of questions at a time, all at once, and add what each brings to its owner's set.

    Returns the questions whose answers leave open what stands there of other types.
    """
    left_open = []
    for start in range(0, len(questions), WINDOW_QUERIES):
        window = questions[start : start + WINDOW_QUERIES]
        first_id = secrets.randbelow(65536 - len(window))
        pending = dict(enumerate(window, first_id))
        queries = [_query(query_id, question) for query_id, question in pending.items()]
        # In one: once the connection is lost, asyncio logs each further write to it.
        writer.write(b"".join(len(query).to_bytes(2, "big") + query for query in queries))
        await writer.drain()
        while pending:
            response = await _read_response(reader)
            asked = pending.pop(response.id, None)
            if asked is None or response.question != (f"{asked.owner}.", _CODES[asked.rdtype]):
                raise _BadResponse("answered what it was not asked")
            served[asked.owner].update(_served(asked, response))
            if not _tells_all(asked, response, referrals_have_ds=referrals_have_ds):
                left_open.append(asked)
    return left_open


def _query(query_id: int, question: _Question) -> bytes:
    """Return a query without recursion, with EDNS and the DO bit (RFC 6891, RFC 3225)."""
    name = b"".join(bytes([len(label)]) + label.encode("ascii") for label in question.owner.split("."))
    return (
        struct.pack("!6H", query_id, 0, 1, 0, 0, 1)
        + name
        + struct.pack("!BHH", 0, _CODES[question.rdtype], dns.rdataclass.IN)
        + struct.pack("!BHHIH", 0, dns.rdatatype.OPT, _PAYLOAD_BYTES, _DO, 0)
    )


@dataclass(frozen=True, slots=True)
class _Response:
    """A response, as far as it is looked at: of the records those of delegations and the SOA, and the types at all owners.

    Names in `question` and `types` are in lower case with the final dot.
    """

    id: int
    flags: int
    question: tuple[str, int]
    records: tuple[tuple[Record, ...], ...]
    types: tuple[frozenset[int], ...]

    @property
    def rcode(self) -> int:
        return self.flags & 0xF

    @property
    def has_authority(self) -> bool:
        return bool(self.flags & dns.flags.AA)


async def _read_response(reader: asyncio.StreamReader) -> _Response:
    wire = await read_message(reader)
    try:
        response = _parse(wire)
    except (dns.exception.DNSException, *MALFORMED) as error:
        raise _BadResponse(f"sent what is no DNS message ({error})") from error
    if not response.flags & dns.flags.QR or response.flags & _OPCODE:
        raise _BadResponse("answered what it was not asked")
    if response.flags & dns.flags.TC:
        raise _BadResponse("sent a truncated response over TCP")
    return response


def _parse(wire: bytes) -> _Response:
    query_id, flags, questions = struct.unpack_from("!3H", wire)
    if questions != 1:
        raise ValueError(f"{questions} questions")
    names: dict[int, str] = {}
    asked = read_name(wire, HEADER_BYTES, names)
    rdtype, rdclass = struct.unpack_from("!2H", wire, after_name(wire, HEADER_BYTES))
    if rdclass != dns.rdataclass.IN:
        raise ValueError("another class")
    records: tuple[list[Record], ...] = ([], [], [])
    types: tuple[set[int], ...] = (set(), set(), set())
    for place in walk(wire):
        types[place.section].add(place.rdtype)
        if place.rdtype in _LOOKED_AT:
            records[place.section].append(read_record(wire, place, names))
    return _Response(
        query_id, flags, (asked, rdtype), tuple(map(tuple, records)), tuple(map(frozenset, types))
    )


def _tells_all(question: _Question, response: _Response, *, referrals_have_ds: bool) -> bool:
    """Whether a response tells of all types: nothing is there at all (RFC 8020), or a referral with which its DS comes.

    A signed referral has the DS records, or the proof that there are none (RFC 4035, section 3.1.4).
    """
    if response.rcode == dns.rcode.NXDOMAIN:
        return True
    if question.left_over or response.has_authority:
        return False
    return referrals_have_ds or not response.types[AUTHORITY].isdisjoint(_ABOUT_DS)


def _served(question: _Question, response: _Response) -> Iterator[Record]:
    """The records of a response that belong to what was asked."""
    asked = f"{question.rdtype} at {question.owner}"
    if response.rcode not in (dns.rcode.NOERROR, dns.rcode.NXDOMAIN):
        raise _BadResponse(f"answers {dns.rcode.to_text(dns.rcode.Rcode(response.rcode))} to {asked}")
    if not _speaks_for_zone(question, response):
        raise _BadResponse(f"gives neither an answer with authority nor a referral for {asked}")
    wanted = DELEGATION_TYPES
    if not question.left_over and question.rdtype != "NS":
        wanted = frozenset({question.rdtype})
    for section, records in enumerate(response.records):
        for record in records:
            here = record.owner == question.owner
            if section == ADDITIONAL:  # glue
                here = (here and question.left_over) or (
                    question.rdtype == "NS"
                    and not question.left_over
                    and is_at_or_below(record.owner, question.owner)
                )
            if here and record.type in wanted:
                yield record


def _speaks_for_zone(question: _Question, response: _Response) -> bool:
    """Whether a response comes from someone who holds the zone: authority, or a referral that fits the question.

    At a delegation that we read, that is the one at this very name, and for DS there is authority (RFC 4035, section 3.1.4.1).
    An owner that should be empty may lie below a delegation. A referral to the root is what some servers give for any name.
    """
    if response.has_authority:
        return True
    if response.rcode != dns.rcode.NOERROR or response.types[ANSWER]:
        return False
    cuts = [record.owner for record in response.records[AUTHORITY] if record.type == "NS"]
    if question.left_over:
        return any(cut and is_at_or_below(question.owner, cut) for cut in cuts)
    return question.rdtype == "NS" and question.owner in cuts
