"""Describe how the served records of a name differ from the desired ones."""

from collections.abc import Iterable, Sequence
from functools import lru_cache
from itertools import zip_longest

import dns.exception
import dns.rdata
import dns.rdataclass

from sublet.counted import counted
from sublet.dns.types import Delegation, DsRecord, GlueEntry, Record


def matches(desired: Iterable[Record], served: Iterable[Record]) -> bool:
    """True if two sets of records have the same owners, types, TTLs and values, in any order.

    Values are compared in wire form, so another spelling of an IPv6 address or a digest makes no difference.
    """
    desired_set, served_set = set(desired), set(served)
    if desired_set == served_set:
        return True
    return {_canonical(record) for record in desired_set} == {_canonical(record) for record in served_set}


def value_key(record: Record) -> tuple[str, str, bytes]:
    """Return a key that is equal for records that differ only in TTL or spelling."""
    return record.owner.lower(), record.type, _wire(record.type, record.rdata)


def _canonical(record: Record) -> tuple[tuple[str, str, bytes], int]:
    return value_key(record), record.ttl_seconds


@lru_cache(maxsize=4096)
def _wire(rdtype: str, text: str) -> bytes:
    try:
        return dns.rdata.from_text(dns.rdataclass.IN, rdtype, text).to_digestable()
    except dns.exception.DNSException:
        return text.encode()  # an invalid value equals only itself


SHOWN_MAX = 8
"""The maximum number of records that a sentence names. It only counts the others."""


def describe_difference(
    name: str, desired: Iterable[Record], served: Iterable[Record], *, is_delegation: bool = True
) -> str | None:
    """Return sentences about the missing, extra and different records in `served`; None if `desired` and
    `served` are equal.

    All are records of `name`: a delegation (NS and DS at the name, glue at or below it), or else any. Values
    are compared in wire form.
    """
    wanted, found = _by_value(desired), _by_value(served)
    missing = [wanted[key] for key in wanted if key not in found]
    extra = [found[key] for key in found if key not in wanted]
    if wanted and not found:
        return f"There {'is no delegation' if is_delegation else 'are no records'} of {name}."
    if found and not wanted:
        return f"{name} should not be in the DNS, but has {_listed(extra, is_delegation=is_delegation)}."
    parts = [f"Missing: {_listed(missing, is_delegation=is_delegation)}."] if missing else []
    if extra:
        stored = "delegation" if is_delegation else "records"
        parts.append(f"Not in the stored {stored}: {_listed(extra, is_delegation=is_delegation)}.")
    parts += _other_ttls(
        [(wanted[key], found[key]) for key in wanted if key in found], is_delegation=is_delegation
    )
    return " ".join(parts) or None


def served_delegation(name: str, records: Sequence[Record]) -> Delegation:
    """Return the served records of a name as a delegation with sorted glue.

    Not checked: that the delegation is valid.
    """
    glue: dict[str, tuple[list[str], list[str]]] = {}
    for record in records:
        if record.type in ("A", "AAAA"):
            glue.setdefault(record.owner, ([], []))[record.type == "AAAA"].append(record.rdata)
    return Delegation(
        tuple(each.rdata.removesuffix(".") for each in records if each.type == "NS" and each.owner == name),
        tuple(
            GlueEntry(host, *pair)
            for host, families in sorted(glue.items())
            for pair in zip_longest(*families)
        ),
        tuple(_ds(each.rdata) for each in records if each.type == "DS" and each.owner == name),
    )


def _ds(rdata: str) -> DsRecord:
    key_tag, algorithm, digest_type, *digest = rdata.split()
    return DsRecord(int(key_tag), int(algorithm), int(digest_type), "".join(digest).lower())


def _by_value(records: Iterable[Record]) -> dict[tuple[str, str, bytes], Record]:
    return {value_key(record): record for record in sorted(set(records))}


def _named(record: Record, *, is_delegation: bool) -> str:
    if not is_delegation:
        return f"{record.owner} {record.type} {record.rdata}"
    if record.type == "NS":
        return f"nameserver {record.rdata.removesuffix('.')}"
    if record.type == "DS":
        return f"DS {record.rdata}"
    return f"glue {record.owner} {record.rdata}"


def _listed(records: Sequence[Record], *, is_delegation: bool) -> str:
    shown = [_named(each, is_delegation=is_delegation) for each in records[:SHOWN_MAX]]
    if len(records) > SHOWN_MAX:
        shown.append(f"{len(records) - SHOWN_MAX} more")
    return " and ".join([", ".join(shown[:-1]), shown[-1]] if len(shown) > 1 else shown)


def _other_ttls(pairs: Iterable[tuple[Record, Record]], *, is_delegation: bool) -> list[str]:
    """Return a sentence for each kind of record whose TTL differs.

    All records of an RRset have the same TTL (RFC 2181, section 5.2).
    """
    found = {
        (_kind(wanted, is_delegation=is_delegation), served.ttl_seconds, wanted.ttl_seconds)
        for wanted, served in pairs
        if wanted.ttl_seconds != served.ttl_seconds
    }
    return [
        f"The TTL of {kind} is {counted(served, 'second')} instead of {wanted}."
        for kind, served, wanted in sorted(found)
    ]


def _kind(record: Record, *, is_delegation: bool) -> str:
    if not is_delegation:
        return f"{record.owner} {record.type}"
    return record.type if record.type in ("NS", "DS") else "glue"
