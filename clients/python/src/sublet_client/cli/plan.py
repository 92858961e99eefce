"""From a file of names and the names of an account to the steps between them (no network)."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from ipaddress import ip_address
from typing import Any

import msgspec

from sublet_client.cli.output import ds_text
from sublet_client.models import GlueEntry, Subdomain
from sublet_client.spelling import ds_record, hostname


class _Entry(msgspec.Struct, forbid_unknown_fields=True):
    """A name in a file."""

    nameservers: list[str] | None = None
    glue: dict[str, str | list[str]] | None = None
    ds_records: list[str] | None = None
    mode: str | None = None


class _File(msgspec.Struct, forbid_unknown_fields=True):
    """A file of names."""

    names: dict[str, _Entry | None]


@dataclass(frozen=True, slots=True)
class Wanted:
    """What a file says about a name. None: the file leaves it as it is. `mode` counts for a registration only."""

    fqdn: str
    nameservers: tuple[str, ...] | None = None
    glue: tuple[tuple[str, str], ...] | None = None
    ds_records: tuple[str, ...] | None = None
    mode: str | None = None


@dataclass(frozen=True, slots=True)
class Step:
    """A change of one name: `register` or `set`. `changes` has the lines that a person reads."""

    action: str
    wanted: Wanted
    changes: tuple[str, ...]
    price: int = 0
    arguments: Mapping[str, Any] = field(default_factory=dict[str, Any])


def parse_names(document: object) -> list[Wanted]:
    """Return the names of a file.

    Raises:
        ValueError: it isn't `names:` with a mapping of names; or an entry is wrong. The sentence says where.
    """
    try:
        entries = msgspec.convert(document, _File).names
    except msgspec.ValidationError as error:
        raise ValueError(
            f"The file is wrong: {error}. Begin it with `names:`, and give each name its members."
        ) from error
    return [_parse(fqdn, entry or _Entry()) for fqdn, entry in entries.items()]


def _parse(fqdn: str, entry: _Entry) -> Wanted:
    return Wanted(
        hostname(fqdn),
        None if entry.nameservers is None else tuple(map(hostname, entry.nameservers)),
        None if entry.glue is None else _glue(entry.glue),
        None if entry.ds_records is None else tuple(map(ds_record, entry.ds_records)),
        entry.mode,
    )


def _glue(found: Mapping[str, str | list[str]]) -> tuple[tuple[str, str], ...]:
    pairs = [
        (hostname(host), str(ip_address(address)))
        for host, addresses in found.items()
        for address in ([addresses] if isinstance(addresses, str) else addresses)
    ]
    return tuple(sorted(pairs))


def stored(name: Subdomain) -> Wanted:
    """Return a name as a file would say it."""
    pairs = [
        (hostname(each.host), str(ip_address(address)))
        for each in name.glue
        for address in (each.ipv4, each.ipv6)
        if address is not None
    ]
    return Wanted(
        name.fqdn,
        tuple(hostname(each) for each in name.nameservers),
        tuple(sorted(pairs)),
        tuple(ds_record(ds_text(each)) for each in name.ds_records),
    )


def as_document(names: Sequence[Subdomain]) -> dict[str, Any]:
    """Return names as a file has them: applied to the same account, it changes nothing."""
    document: dict[str, Any] = {}
    for each in sorted(names, key=lambda name: name.fqdn):
        found = stored(each)
        entry: dict[str, Any] = {"nameservers": list(found.nameservers or ())}
        if found.glue:
            hosts = dict.fromkeys(host for host, _ in found.glue)
            entry["glue"] = {
                host: [address for name, address in found.glue if name == host] for host in hosts
            }
        if found.ds_records:
            entry["ds_records"] = list(found.ds_records)
        document[each.fqdn] = entry
    return {"names": document}


def step_to(wanted: Wanted, present: Subdomain | None, price: int = 0) -> Step | None:
    """Return the step that makes a name what is wanted; None if it is that already. `price` is that of a registration."""
    before = stored(present) if present is not None else Wanted(wanted.fqdn, (), (), ())
    changes = [
        f"{member}: {_shown(was)} -> {_shown(will)}"
        for member in ("nameservers", "glue", "ds_records")
        if (will := getattr(wanted, member)) is not None
        and sorted(was := getattr(before, member)) != sorted(will)
    ]
    if present is not None and not changes:
        return None
    action = "register" if present is None else "set"
    return Step(action, wanted, tuple(changes), price, _arguments(wanted))


def _shown(items: Sequence[str | tuple[str, str]]) -> str:
    texts = [each if isinstance(each, str) else " ".join(each) for each in items]
    return ", ".join(texts) or "none"


def _arguments(wanted: Wanted) -> dict[str, Any]:
    """Return what the client's `register` and `update_nameservers` take: what the file leaves as it is isn't sent."""
    found: dict[str, Any] = {"nameservers": wanted.nameservers, "glue": None, "ds_records": wanted.ds_records}
    if wanted.glue is not None:
        entries: dict[str, dict[str, str]] = {}
        for host, address in wanted.glue:
            entries.setdefault(host, {})[f"ipv{ip_address(address).version}"] = address
        found["glue"] = [GlueEntry(host=host, **each) for host, each in entries.items()]
    return {name: value for name, value in found.items() if value is not None}
