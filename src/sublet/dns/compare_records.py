"""Compare records by owner, type, TTL and value in wire form (rules; no network)."""

from collections.abc import Iterable
from functools import lru_cache

import dns.exception
import dns.rdata
import dns.rdataclass

from sublet.dns.types import Record


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
