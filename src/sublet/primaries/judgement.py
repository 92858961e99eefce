"""What a name server is found to serve, held against what was sent; and the sentences that users are told."""

from collections.abc import Mapping, Sequence

from sublet.dns.types import Record
from sublet.dns.verify import matches
from sublet.primaries.publishing import Item, Result

IN_USE = "The name is in use in the zone by records that the registry did not write; the operator has to look at it."
NOT_APPLIED = "The name server refused this delegation; the operator has to look at it."
PARTIAL = "The name server took this delegation and does not serve all of it, or not yet; it is tried again by itself."
_OURS = "The registry can't publish changes in this zone right now"
SENTENCES = {
    "unreachable": f"{_OURS}: its name server can't be reached. It is tried again by itself.",
    "no_answer": f"{_OURS}: its name server does not answer. It is tried again by itself.",
    "key": f"{_OURS}: its name server does not accept the registry's key. The operator has to look at it.",
    "clock": f"{_OURS}: the clocks of the registry and its name server differ. The operator has to look at it.",
    "refused": f"{_OURS}: its name server does not allow them. The operator has to look at it.",
    "no_updates": f"{_OURS}: its name server takes none at the moment. The operator has to look at it.",
    "zone": f"{_OURS}: its name server does not hold the zone. The operator has to look at it.",
    "failure": f"{_OURS}: its name server fails. It is tried again by itself.",
    "not_understood": f"{_OURS}: its name server does not understand them. The operator has to look at it.",
    "unsigned": f"{_OURS}: an answer was not signed, and isn't believed. The operator has to look at it.",
    "fence": f"{_OURS}: the zone was changed by something else. It is tried again by itself.",
    "read_back": f"{_OURS}: what its name server serves can't be read back. It is tried again by itself.",
    "too_large": f"{_OURS}: its name server sends too much. The operator has to look at it.",
    "settings": f"{_OURS}: its name server is not set up. The operator has to look at it.",
}
"""What the user is told of a cause that is not the name's own (docs/operating/trouble.md has what the operator can do)."""


def absent_owners(zone: str, items: Sequence[Item]) -> list[str]:
    """Return the owners at which nothing is to be left; with them the zone's wildcard, to be told apart from that."""
    absent = {owner for item in items for owner in unwanted_owners(item)}
    return sorted({*absent, f"*.{zone}"} if absent else absent)


def without_wildcard(
    zone: str, items: Sequence[Item], served: Mapping[str, tuple[Record, ...]]
) -> dict[str, tuple[Record, ...]]:
    """Return what is served but for what the zone's wildcard makes at owners where nothing is left (RFC 4592, section 3.3.1).

    A wildcard is the operator's: without this no name of a zone that has one could ever be taken out.
    """
    wildcard = {(each.type, each.ttl_seconds, each.rdata) for each in served.get(f"*.{zone}", ())}
    absent = {owner for item in items for owner in unwanted_owners(item)}
    return {
        name: tuple(
            each
            for each in records
            if each.owner not in absent or (each.type, each.ttl_seconds, each.rdata) not in wildcard
        )
        for name, records in served.items()
    }


def unwanted_owners(item: Item) -> frozenset[str]:
    """Return the owners at which something of ours is or may be, and nothing is to be left."""
    return item.owners - {record.owner for record in item.desired}


def judge(item: Item, served: Mapping[str, tuple[Record, ...]], serial: int) -> Result:
    """Published is only what the server answers with exactly, and of which nothing older is left."""
    left_over = [owner for owner in unwanted_owners(item) if served[owner]]
    if left_over or not matches(item.desired, served[item.fqdn]):
        return Result(item, error=PARTIAL, cause="partial")
    return Result(item, serial=serial)
