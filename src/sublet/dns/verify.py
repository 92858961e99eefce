"""What a server really serves: single delegations read back after publishing, and a whole zone against what is desired."""

import asyncio
import secrets
import struct
from collections.abc import AsyncIterator, Collection, Iterable, Iterator, Mapping, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass
from functools import lru_cache

import dns.exception
import dns.flags
import dns.rcode
import dns.rdata
import dns.rdataclass
import dns.rdatatype

from sublet.dns.names import ancestors, is_at_or_below
from sublet.dns.plan import RECORD_TYPES
from sublet.dns.types import Record
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

DELEGATION_TYPES = frozenset(RECORD_TYPES)
"""The types that a delegation is made of, so all that is ever published at a name."""

WINDOW_QUERIES = 100
"""How many queries are under way at once on the one connection."""

_ABOUT_DS = frozenset({dns.rdatatype.DS, dns.rdatatype.NSEC, dns.rdatatype.NSEC3})
_CODES = {each: int(dns.rdatatype.from_text(each)) for each in (*RECORD_TYPES, "SOA")}
_LOOKED_AT = frozenset(_CODES.values())
_OPCODE = 0x7800
_DO = 0x8000
_PAYLOAD_BYTES = 1232
_SIGNER_TYPES = frozenset({"RRSIG", "NSEC", "NSEC3"})


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
) -> Mapping[str, tuple[Record, ...]]:
    """What a server serves for the delegations at names, and what it still has at owners that should be empty.

    `address` is the server's host and port; all is asked over one TCP connection, which gets `timeout_seconds` for the whole.
    Names are in lower case without the final dot. The result has every name of `names` and of `also_absent`:

    - for a name of `names`: its NS records and, of their hosts at or below the name, the A and AAAA records, both
      from the referral; and its DS records. Nothing there (NXDOMAIN, NODATA, another kind of record): an empty tuple.
    - for an owner of `also_absent`: its own NS, DS, A and AAAA records wherever in a response they turn up; empty is good.
    - for one in both: all of these.

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
    async with _failures_told(address, timeout_seconds), _connected(address) as streams:
        # A signed zone's referral tells of the DS too, and NXDOMAIN of all types: most need no second question.
        left_open = await _ask_all(*streams, questions, served)
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

    The records are those of `read_back` for the name, and what is left at the owners of `also_absent`.

    Raises ReadBackFailed as `read_back`, also where the server has no authority for the zone itself.
    """
    questions = [_Question(zone, "SOA", left_over=False)]
    questions += [_Question(name, rdtype, left_over=False) for rdtype in ("NS", "DS")]
    questions += [
        _Question(owner, rdtype, left_over=True) for owner in also_absent for rdtype in RECORD_TYPES
    ]
    served: dict[str, set[Record]] = {each.owner: set() for each in questions}
    async with _failures_told(address, timeout_seconds), _connected(address) as streams:
        await _ask_all(*streams, questions, served)
        serials = [int(record.rdata.split()[2]) for record in served.pop(zone) if record.type == "SOA"]
        if len(serials) != 1:
            raise _BadResponse(f"has no SOA record at {zone}")
    return Served(serials[0], tuple(sorted(set().union(*served.values()))))


@asynccontextmanager
async def _failures_told(address: tuple[str, int], timeout_seconds: float) -> AsyncIterator[None]:
    """Give what is done inside its time, and tell by ReadBackFailed what goes wrong with the connection."""
    server = f"[{address[0]}]:{address[1]}" if ":" in address[0] else f"{address[0]}:{address[1]}"
    try:
        async with asyncio.timeout(timeout_seconds):
            yield
    except TimeoutError:
        sentence = f"{server} did not answer everything within {timeout_seconds:g} seconds."
        raise ReadBackFailed(sentence, "no_answer") from None
    except EOFError:
        sentence = f"{server} closed the connection before it had answered everything."
        raise ReadBackFailed(sentence, "no_answer") from None
    except OSError as error:
        raise ReadBackFailed(f"{server} can't be reached: {error}.", "unreachable") from error
    except _BadResponse as error:
        raise ReadBackFailed(f"{server} {error}.") from None


@asynccontextmanager
async def _connected(
    address: tuple[str, int],
) -> AsyncIterator[tuple[asyncio.StreamReader, asyncio.StreamWriter]]:
    reader, writer = await asyncio.open_connection(*address)
    try:
        yield reader, writer
    finally:
        writer.transport.abort()


async def _ask_all(
    reader: asyncio.StreamReader,
    writer: asyncio.StreamWriter,
    questions: Sequence[_Question],
    served: Mapping[str, set[Record]],
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
            if not _tells_all(asked, response):
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
    size_bytes = int.from_bytes(await reader.readexactly(2), "big")
    wire = await reader.readexactly(size_bytes)
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


def _tells_all(question: _Question, response: _Response) -> bool:
    """Whether a response tells of all types: nothing is there at all (RFC 8020), or a signed referral, whose DS comes with it.

    Such a referral has the DS records, or the proof that there are none (RFC 4035, section 3.1.4).
    """
    if response.rcode == dns.rcode.NXDOMAIN:
        return True
    if question.left_over or response.has_authority:
        return False
    return not response.types[AUTHORITY].isdisjoint(_ABOUT_DS)


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


def matches(desired: Iterable[Record], served: Iterable[Record]) -> bool:
    """Whether two sets of records say the same: owners, types, TTLs and values; in any order, repeated or not.

    Values are compared as they go over the wire, so another spelling (of an IPv6 address, of a digest) is no difference.
    """
    desired_set, served_set = set(desired), set(served)
    if desired_set == served_set:
        return True
    return {_canonical(record) for record in desired_set} == {_canonical(record) for record in served_set}


def same_value(record: Record) -> tuple[str, str, bytes]:
    """A record without its TTL, as it is compared: two records with equal ones are the same record."""
    return record.owner.lower(), record.type, _wire(record.type, record.rdata)


def _canonical(record: Record) -> tuple[tuple[str, str, bytes], int]:
    return same_value(record), record.ttl_seconds


@lru_cache(maxsize=4096)
def _wire(rdtype: str, text: str) -> bytes:
    try:
        return dns.rdata.from_text(dns.rdataclass.IN, rdtype, text).to_digestable()
    except dns.exception.DNSException:
        return text.encode()  # what nobody can read equals only itself


@dataclass(frozen=True, slots=True)
class DifferentName:
    """A name that is in the zone otherwise than desired; `live` are the records at the owners of `desired`, both sorted."""

    name: str
    live: tuple[Record, ...]
    desired: tuple[Record, ...]


@dataclass(frozen=True, slots=True)
class ZoneDifferences:
    """How a live zone differs from what is desired; everything sorted.

    `missing`: desired names of which nothing is there. `different`: those that are there otherwise. `orphaned`: records
    of ours that no desired name accounts for; to be deleted. `foreign`: records that we never wrote; to be left alone.
    """

    missing: tuple[str, ...] = ()
    different: tuple[DifferentName, ...] = ()
    orphaned: tuple[Record, ...] = ()
    foreign: tuple[Record, ...] = ()

    @property
    def ours_is_right(self) -> bool:
        """Whether nothing is to be repaired; foreign records don't count."""
        return not (self.missing or self.different or self.orphaned)


def compare_zone(
    live: Iterable[Record],
    desired: Mapping[str, tuple[Record, ...]],
    ours: Collection[str],
    *,
    ignored: Collection[str] = (),
    unjudged: Collection[str] = (),
) -> ZoneDifferences:
    """Compare a whole zone, as a transfer gives it, with what should be in it.

    `desired` has by name the records of its delegation (NS and DS at the name, A and AAAA at or below it); a name with no records is
    not desired. `ours` are the owners that we published or may have published. `ignored` are owners that are neither (the fence's).
    `unjudged` are names that are being changed: nothing at or below them is looked at.

    A live record of a type that delegations are made of belongs to the desired names that have its owner among their
    records' owners. One that belongs to none is orphaned when its owner is of `ours`, also below a desired name (glue of a former
    nameserver), and else foreign, as is every record of another type. Records at the apex are passed over, and so is what
    a signing server makes by itself (RRSIG, NSEC, NSEC3).

    Raises ValueError when `live` has no SOA record: then it is no whole zone, and nothing may be concluded from what it lacks.
    """
    apexes: set[str] = set()
    by_owner: dict[str, list[Record]] = {}
    others: list[Record] = []
    for record in live:
        if record.type == "SOA":
            apexes.add(record.owner)
        elif record.type in DELEGATION_TYPES:
            by_owner.setdefault(record.owner, []).append(record)
        elif record.type not in _SIGNER_TYPES:
            others.append(record)
    if not apexes:
        raise ValueError("the live records have no SOA record, so they are no whole zone")
    passed_over = apexes | set(ignored)

    def is_judged(owner: str) -> bool:
        return owner not in passed_over and (
            not unjudged or not any(name in unjudged for name in (owner, *ancestors(owner)))
        )

    missing: list[str] = []
    different: list[DifferentName] = []
    claimed: set[str] = set()
    for name in sorted(desired):
        owners = {record.owner for record in desired[name]}
        claimed |= owners
        there = [record for owner in owners for record in by_owner.get(owner, ())]
        if owners and not there:
            missing.append(name)
        elif not matches(desired[name], there):
            different.append(DifferentName(name, tuple(sorted(there)), tuple(sorted(desired[name]))))
    unclaimed = {
        record
        for owner, at_owner in by_owner.items()
        if owner not in claimed and is_judged(owner)
        for record in at_owner
    }
    orphaned = {record for record in unclaimed if record.owner in ours}
    foreign = unclaimed - orphaned | {record for record in others if is_judged(record.owner)}
    return ZoneDifferences(tuple(missing), tuple(different), tuple(sorted(orphaned)), tuple(sorted(foreign)))
