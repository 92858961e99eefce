"""Query a name server for what names publish: to confirm a publication, and to show users what is served."""

import asyncio
import secrets
import struct
from collections.abc import (
    AsyncIterator,
    Awaitable,
    Callable,
    Collection,
    Iterable,
    Iterator,
    Mapping,
    Sequence,
)
from contextlib import asynccontextmanager
from functools import partial

import dns.exception
import dns.flags
import dns.rcode
import dns.rdataclass
import dns.rdatatype
from msgspec import Struct

from sublet.dns.ds import wire_name
from sublet.dns.names import ancestors, is_at_or_below, is_below
from sublet.dns.tcp import ConnectionFailed, connected, read_message
from sublet.dns.types import DELEGATION_TYPES, PUBLISHED_TYPES, Record
from sublet.dns.wire import (
    ADDITIONAL,
    ANSWER,
    AUTHORITY,
    HEADER_BYTES,
    MALFORMED,
    after_name,
    read_name,
    read_record,
    walk_records,
)
from sublet.structs import replace

WINDOW_QUERIES = 100
"""The maximum number of queries in progress on a connection."""

_ABOUT_DS = frozenset({dns.rdatatype.DS, dns.rdatatype.NSEC, dns.rdatatype.NSEC3})
_CODES = {each: int(dns.rdatatype.from_text(each)) for each in (*PUBLISHED_TYPES, "SOA")}
_READ_TYPES = frozenset(_CODES.values())
_OPCODE_MASK = 0x7800
_DO = 0x8000
_PAYLOAD_BYTES = 1232


class ReadBackFailed(Exception):  # noqa: N818 - named for what the caller sees
    """The server gave no usable answer. `str()` is a sentence with its address.

    `cause` is "unreachable" (no connection), "no_answer" (timeout, or the connection was closed) or
    "bad_response".
    """

    def __init__(self, sentence: str, cause: str = "bad_response") -> None:
        super().__init__(sentence)
        self.cause = cause


class _BadResponse(Exception):  # noqa: N818 - named for what the caller sees
    """A response is unusable. `str()` is the rest of a sentence that starts with the server's address."""


class _Question(Struct, frozen=True):
    """A question about an owner. The records of the answer are those of `name`.

    `wants_all` is False for the NS and DS records of a delegation, and True for all records at an owner.
    `failed_rdtype` is the type of a first question to which the server answered SERVFAIL. With `below_alias`
    the owner is below a wildcard with a CNAME record, and should have no records of its own.
    """

    name: str
    owner: str
    rdtype: str
    wants_all: bool = False
    failed_rdtype: str = ""
    below_alias: bool = False


_AskAll = Callable[[Sequence[_Question], Mapping[str, set[Record]]], Awaitable[list[_Question]]]


async def read_back(
    address: tuple[str, int],
    zone: str,
    desired: Mapping[str, Collection[Record]],
    *,
    timeout_seconds: float,
    empty_owners: Sequence[str] = (),
) -> Mapping[str, tuple[Record, ...]]:
    """Return what a server serves of `zone`: the records of each name in `desired`, and of `empty_owners`,
    which should have none.

    `address` is the server's IP address and port. All queries share one TCP connection. `timeout_seconds`
    limits opening it, and then the answers to each `WINDOW_QUERIES` queries: many records at a distant server
    take longer. Names are in lower case without the final dot. `desired` has, by name, the records that
    the server should serve. The result maps each of these names and each of `empty_owners` to its records:

    - for each name: the NS records, their hosts' A and AAAA records at or below the name (both from the
      referral), and the DS records. If its desired records are no delegation: the records of all
      `PUBLISHED_TYPES` at their owners, too.
    - for `empty_owners`: the owner's records of all `PUBLISHED_TYPES` from all sections of the responses,
      except records that a wildcard of the zone or of `desired` creates (RFC 4592, section 3.3.1).
    - for a name in both: all of these.

    Not found: an address record below a name that is still delegated, because only a transfer shows that
    record (`compare_zone`). Wrongly included: NS records of the child zone if the server has that zone, too.

    Raises:
        ReadBackFailed: no connection; a timeout; a response that is truncated, not a DNS message, or answers
            another question; an rcode other than NOERROR and NXDOMAIN, but SERVFAIL is accepted for aliases;
            neither authority nor a referral for the name (the server doesn't have the zone).
    """
    questions = [_Question(name, name, "NS") for name in desired]
    questions += [more for name, records in desired.items() for more in _about_records(name, records)]
    wildcards = [
        record for records in desired.values() for record in records if record.owner.startswith("*.")
    ]
    questions += _about_empty(empty_owners, wildcards)
    served: dict[str, set[Record]] = {name: set() for name in (*desired, *empty_owners)}
    async with _connection(address, timeout_seconds) as ask_all:
        # Most names need no second query: the referral of a signed zone has the DS records, and NXDOMAIN
        # covers all types.
        further = await ask_all(questions, served)
        await ask_all(further, served)
        await _remove_wildcard(ask_all, zone, empty_owners, wildcards, served)
    return {name: tuple(sorted(records)) for name, records in served.items()}


def _about_records(name: str, desired: Collection[Record]) -> Iterator[_Question]:
    """Yield the first question about each owner of records that are no delegation."""
    if not any(record.type == "NS" for record in desired):
        for owner in sorted({record.owner for record in desired}):
            yield _Question(name, owner, "A", wants_all=True)


def _about_empty(owners: Sequence[str], wildcards: Iterable[Record]) -> Iterator[_Question]:
    """Yield the first question about each owner that should have no records."""
    above = {record.owner.removeprefix("*.") for record in wildcards if record.type == "CNAME"}
    for owner in owners:
        yield _Question(owner, owner, "A", wants_all=True, below_alias=not above.isdisjoint(ancestors(owner)))


class Served(Struct, frozen=True):
    """The served records of one name and of the owners that should be empty, and the serial of the zone."""

    serial: int
    records: tuple[Record, ...]


async def read_served(
    address: tuple[str, int],
    zone: str,
    name: str,
    desired: Collection[Record],
    *,
    timeout_seconds: float,
    empty_owners: Sequence[str] = (),
) -> Served:
    """Return what a server serves for one name below `zone`, and the zone's serial, over one TCP connection.

    The records are those that `read_back` returns for `name` and `empty_owners`. `timeout_seconds` limits the
    same as there.

    Raises:
        ReadBackFailed: for the reasons of `read_back`, or because the server has no authority for the zone.
    """
    questions = [_Question(zone, zone, "SOA")]
    questions += [_Question(name, name, rdtype) for rdtype in ("NS", "DS")]
    questions += _about_records(name, desired)
    wildcards = [record for record in desired if record.owner.startswith("*.")]
    questions += _about_empty(empty_owners, wildcards)
    served: dict[str, set[Record]] = {each.name: set() for each in questions}
    async with _connection(address, timeout_seconds) as ask_all:
        further = await ask_all(questions, served)
        await ask_all([each for each in further if each.wants_all], served)
        await _remove_wildcard(ask_all, zone, empty_owners, wildcards, served)
        serials = [int(record.rdata.split()[2]) for record in served.pop(zone) if record.type == "SOA"]
        if len(serials) != 1:
            raise _BadResponse(f"has no SOA record at {zone}")
    return Served(serials[0], tuple(sorted(set().union(*served.values()))))


async def _remove_wildcard(
    ask_all: _AskAll,
    zone: str,
    empty_owners: Sequence[str],
    wildcards: Iterable[Record],
    served: dict[str, set[Record]],
) -> None:
    """Remove the records that wildcards create at `empty_owners`.

    With them no name would ever count as removed.

    `wildcards` are the desired wildcards of names. The server is asked for the zone's wildcard.
    """
    for each in wildcards:
        for owner in empty_owners:
            if is_below(owner, each.owner.removeprefix("*.")):
                served[owner].discard(replace(each, owner=owner))
    if not any(served[owner] for owner in empty_owners):
        return
    at = f"*.{zone}"
    of_zone: dict[str, set[Record]] = {at: set()}
    questions = [_Question(at, at, rdtype, wants_all=True) for rdtype in PUBLISHED_TYPES]
    await ask_all(questions, of_zone)
    for owner in empty_owners:
        served[owner] -= {replace(each, owner=owner) for each in of_zone[at]}


@asynccontextmanager
async def _connection(address: tuple[str, int], timeout_seconds: float) -> AsyncIterator[_AskAll]:
    """Open a TCP connection, and yield `_ask_all` on it.

    In the block, raise connection failures and bad responses as `ReadBackFailed`.
    """
    server = f"[{address[0]}]:{address[1]}" if ":" in address[0] else f"{address[0]}:{address[1]}"
    try:
        async with connected(address, timeout_seconds, limits_block=False) as streams:
            yield partial(_ask_all, *streams, timeout_seconds)
    except ConnectionFailed as failure:
        raise ReadBackFailed(f"{server} {failure}.", failure.cause) from failure
    except _BadResponse as error:
        raise ReadBackFailed(f"{server} {error}.") from None


async def _ask_all(
    reader: asyncio.StreamReader,
    writer: asyncio.StreamWriter,
    timeout_seconds: float,
    questions: Sequence[_Question],
    served: Mapping[str, set[Record]],
) -> list[_Question]:
    """Send the questions, `WINDOW_QUERIES` at a time, and add the records of each response to the set of the
    name in `served`.

    After SERVFAIL ask for the CNAME record: BIND and PowerDNS fail if aliases form a loop or a long chain.

    Return the questions about the types that the responses don't cover.
    """
    further: list[_Question] = []
    aliases: list[_Question] = []
    for start in range(0, len(questions), WINDOW_QUERIES):
        window = questions[start : start + WINDOW_QUERIES]
        first_id = secrets.randbelow(65536 - len(window))
        pending = dict(enumerate(window, first_id))
        queries = [_query(query_id, question) for query_id, question in pending.items()]
        # A single write, because asyncio logs each further write to a lost connection.
        writer.write(b"".join(len(query).to_bytes(2, "big") + query for query in queries))
        async with asyncio.timeout(timeout_seconds):
            await writer.drain()
            while pending:
                # Reading a response that has arrived already gives other tasks no turn.
                await asyncio.sleep(0)
                response = await _read_response(reader)
                asked = pending.pop(response.id, None)
                if asked is None or response.question != (f"{asked.owner}.", _CODES[asked.rdtype]):
                    raise _BadResponse("answered another question")
                if response.rcode == dns.rcode.SERVFAIL and not asked.failed_rdtype:
                    aliases.append(replace(asked, rdtype="CNAME", failed_rdtype=asked.rdtype))
                    continue
                served[asked.name].update(_records_for(asked, response))
                further += _follow_up(asked, response)
    if aliases:
        await _ask_all(reader, writer, timeout_seconds, aliases, served)
    return further


def _follow_up(question: _Question, response: "_Response") -> Iterator[_Question]:
    """Yield the questions about the types that a response doesn't cover.

    NXDOMAIN covers all types (RFC 8020). So does a CNAME, and a signed referral: it has the DS records, or
    the proof that there are none (RFC 4035, section 3.1.4).
    """
    if response.rcode == dns.rcode.NXDOMAIN:
        return
    rdtypes: tuple[str, ...] = ("DS",)
    if question.wants_all:
        if dns.rdatatype.CNAME in response.types[ANSWER]:
            return
        rdtypes = PUBLISHED_TYPES if response.has_authority else DELEGATION_TYPES
    elif not response.has_authority and not response.types[AUTHORITY].isdisjoint(_ABOUT_DS):
        return
    for rdtype in rdtypes:
        if rdtype != question.rdtype:
            yield replace(question, rdtype=rdtype)


def _query(query_id: int, question: _Question) -> bytes:
    """Return the message of a query without recursion, with EDNS and the DO bit (RFC 6891, RFC 3225)."""
    return (
        struct.pack("!6H", query_id, 0, 1, 0, 0, 1)
        + wire_name(question.owner)
        + struct.pack("!HH", _CODES[question.rdtype], dns.rdataclass.IN)
        + struct.pack("!BHHIH", 0, dns.rdatatype.OPT, _PAYLOAD_BYTES, _DO, 0)
    )


class _Response(Struct, frozen=True):
    """The fields of a DNS response.

    `records` has one tuple per section, with the `PUBLISHED_TYPES`, and the SOA record of an answer, only.

    `types` has the record types per section. The name in `question` is in lower case with the final dot.
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
        raise _BadResponse(f"sent something that is not a DNS message ({error})") from error
    if not response.flags & dns.flags.QR or response.flags & _OPCODE_MASK:
        raise _BadResponse("answered another question")
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
    for place in walk_records(wire):
        types[place.section].add(place.rdtype)
        # Most responses are negative, and reading the SOA record of these would take two
        # thirds of the time.
        if place.rdtype in _READ_TYPES and (place.rdtype != dns.rdatatype.SOA or place.section == ANSWER):
            records[place.section].append(read_record(wire, place, names))
    return _Response(
        query_id, flags, (asked, rdtype), tuple(map(tuple, records)), tuple(map(frozenset, types))
    )


def _records_for(question: _Question, response: _Response) -> Iterator[Record]:
    asked = f"{question.failed_rdtype or question.rdtype} at {question.owner}"
    if response.rcode == dns.rcode.SERVFAIL and question.below_alias:
        return  # PowerDNS fails to follow the wildcard's alias, but only if the owner has no records
    if response.rcode not in (dns.rcode.NOERROR, dns.rcode.NXDOMAIN):
        raise _BadResponse(f"answers {dns.rcode.to_text(dns.rcode.Rcode(response.rcode))} to {asked}")
    if question.failed_rdtype and dns.rdatatype.CNAME not in response.types[ANSWER]:
        raise _BadResponse(f"answers SERVFAIL to {asked}")
    if not _has_zone(question, response):
        raise _BadResponse(f"gives neither an answer with authority nor a referral for {asked}")
    wanted: tuple[str, ...] = PUBLISHED_TYPES if question.wants_all else DELEGATION_TYPES
    if not question.wants_all and question.rdtype != "NS":
        wanted = (question.rdtype,)
    for section, records in enumerate(response.records):
        for record in records:
            here = record.owner == question.owner
            if section == ADDITIONAL:  # glue
                here = (here and question.wants_all) or (
                    question.rdtype == "NS"
                    and not question.wants_all
                    and is_at_or_below(record.owner, question.owner)
                )
            if here and record.type in wanted:
                yield record


def _has_zone(question: _Question, response: _Response) -> bool:
    """True if the response shows that the server has the zone: an answer with authority, or a matching
    referral.

    A referral must be at the name; for all records at an owner, a referral above the owner counts too. A DS
    answer needs authority (RFC 4035, section 3.1.4.1). A referral to the root doesn't count, because some
    servers send one for any name.
    """
    if response.has_authority:
        return True
    if response.rcode != dns.rcode.NOERROR or response.types[ANSWER]:
        return False
    cuts = [record.owner for record in response.records[AUTHORITY] if record.type == "NS"]
    if question.wants_all:
        return any(cut and is_at_or_below(question.owner, cut) for cut in cuts)
    return question.rdtype == "NS" and question.owner in cuts
