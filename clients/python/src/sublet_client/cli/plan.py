"""From a file of names and the names of an account to the steps between them (no network)."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, TypeVar

from sublet_client.models import Mode, RecordSet, Subdomain
from sublet_client.spelling import glue_entry

T = TypeVar("T")
FREE = "free"
MODES = (FREE, "plus", "premium", "special")


@dataclass(frozen=True, slots=True)
class Wanted:
    """What a file says about a name.

    None: the file leaves it as it is. `mode` counts for a registration only.
    """

    fqdn: str
    nameservers: tuple[str, ...] | None = None
    glue: tuple[tuple[str, str], ...] | None = None
    ds_records: tuple[str, ...] | None = None
    mode: str | None = None
    records: tuple[RecordSet, ...] | None = None


@dataclass(frozen=True, slots=True)
class StoredRecords:
    """The records of a name, with their entity tag for a change; None for a name that isn't there yet."""

    records: tuple[RecordSet, ...] = ()
    etag: str | None = None


@dataclass(frozen=True, slots=True)
class Step:
    """A change of one name: `register` or `set`.

    `changes` has the lines that a person reads, `mode` and `price` are those of a registration.

    `arguments` are those of the delegation, empty if it stays. `records` are all records of the name, None if
    they stay.
    """

    action: str
    wanted: Wanted
    changes: tuple[str, ...]
    mode: str | None = None
    price: int = 0
    arguments: Mapping[str, Any] = field(default_factory=dict[str, Any])
    records: tuple[RecordSet, ...] | None = None
    records_etag: str | None = None


def stored(name: Subdomain) -> Wanted:
    """Return a name as a file would say it."""
    pairs = [
        (each.host, address)
        for each in name.glue
        for address in (each.ipv4, each.ipv6)
        if address is not None
    ]
    return Wanted(name.fqdn, name.nameservers, tuple(sorted(pairs)), tuple(map(str, name.ds_records)))


def as_document(names: Sequence[Subdomain], records: Mapping[str, Sequence[RecordSet]]) -> dict[str, Any]:
    """Return names as a file has them: applied to the same account, it changes nothing.

    `records` are by name.
    """
    document: dict[str, Any] = {}
    for each in sorted(names, key=lambda name: name.fqdn):
        found = stored(each)
        entry: dict[str, Any] = {"nameservers": list(found.nameservers or ())}
        if each.registration_type in MODES:
            entry["mode"] = each.registration_type
        if found.glue:
            hosts = dict.fromkeys(host for host, _ in found.glue)
            entry["glue"] = {
                host: [address for name, address in found.glue if name == host] for host in hosts
            }
        if found.ds_records:
            entry["ds_records"] = list(found.ds_records)
        if records.get(each.fqdn):
            entry["records"] = [
                {"name": one.name, "type": one.type, "ttl": one.ttl, "values": list(one.values)}
                for one in records[each.fqdn]
            ]
        document[each.fqdn] = entry
    return {"names": document}


def choose_modes(
    wanted: Sequence[tuple[str | None, Sequence[Mode]]], free_left: int | None
) -> list[Mode | None]:
    """Return the mode that the registry takes for each registration, one after the other: free while the
    quota lasts, then the next one.

    `wanted` has for each name the mode of the file and the modes that are open to it now. `free_left` is the
    rest of the quota, None if it is unknown: then it counts as enough. None: no mode is left for this name.
    """
    found: list[Mode | None] = []
    for mode, offered in wanted:
        fitting = [each for each in offered if mode in (None, each.mode)]
        left = [each for each in fitting if each.mode != FREE or free_left is None or free_left > 0]
        found.append(left[0] if left else None)
        if left and left[0].mode == FREE and free_left is not None:
            free_left -= 1
    return found


def step_to(
    wanted: Wanted,
    present: Subdomain | None,
    offer: Mode | None = None,
    stored_records: StoredRecords | None = None,
) -> Step | None:
    """Return the step that makes a name what is wanted; None if it is that already.

    `offer` is the mode of a registration.
    """
    before = stored(present) if present is not None else Wanted(wanted.fqdn, (), (), ())
    known_records = stored_records or StoredRecords()
    changes = [
        f"{member}: {_shown(was)} -> {_shown(will)}"
        for member in ("nameservers", "glue", "ds_records")
        if (will := getattr(wanted, member)) is not None
        and sorted(was := getattr(before, member)) != sorted(will)
    ]
    record_changes = (
        [] if wanted.records is None else changes_of_records(known_records.records, wanted.records)
    )
    if present is not None and not changes and not record_changes:
        return None
    lines = (*changes, *record_changes)
    records = wanted.records if record_changes else None
    arguments = _arguments(wanted) if changes or present is None else {}
    if present is not None or offer is None:
        return Step(
            "set", wanted, lines, arguments=arguments, records=records, records_etag=known_records.etag
        )
    return Step(
        "register", wanted, lines, offer.mode, offer.price_credits, arguments=arguments, records=records
    )


def changes_of_records(before: Sequence[RecordSet], after: Sequence[RecordSet]) -> list[str]:
    """Return a line for each RRset that differs, by owner and type."""
    was, will = (
        {(each.name, each.type): _record_text(each) for each in each_side} for each_side in (before, after)
    )
    return [
        f"records {' '.join(place)}: {was.get(place, 'none')} -> {will.get(place, 'none')}"
        for place in sorted(was.keys() | will.keys())
        if was.get(place) != will.get(place)
    ]


def _record_text(record: RecordSet) -> str:
    return f"{', '.join(sorted(record.values))} (TTL {record.ttl})"


def plan_text(steps: Sequence[Step], balance: int | None) -> str:
    """Return a plan for people.

    `balance` is what the account has, None if it is unknown or nothing is to be paid.
    """
    if not steps:
        return "Nothing to do: all names are what the file says."
    lines: list[str] = []
    for step in steps:
        price = f" ({step.mode}) for {step.price} credits" if step.price else ""
        lines += [f"{step.action} {step.wanted.fqdn}{price}", *(f"    {each}" for each in step.changes)]
    new = sum(step.action == "register" for step in steps)
    have = "" if balance is None else f" (you have {balance})"
    lines.append(f"{new} to register for {price_of(steps)} credits{have}, {len(steps) - new} to change.")
    return "\n".join(lines)


def price_of(steps: Sequence[Step]) -> int:
    """Return what a plan costs, in credits."""
    return sum(step.price for step in steps)


def _shown(items: Sequence[str | tuple[str, str]]) -> str:
    texts = [each if isinstance(each, str) else " ".join(each) for each in items]
    return ", ".join(texts) or "none"


def _arguments(wanted: Wanted) -> dict[str, Any]:
    """Return what the client's `register` and `update_nameservers` take: what the file leaves as it is isn't
    sent.
    """
    found: dict[str, Any] = {"nameservers": wanted.nameservers, "glue": None, "ds_records": wanted.ds_records}
    if wanted.glue is not None:
        found["glue"] = [glue_entry(host, address) for host, address in wanted.glue]
    return {name: value for name, value in found.items() if value is not None}
