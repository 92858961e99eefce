"""A delegation: nameservers, glue and DS records, and when they are valid together."""

from collections import deque
from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass
from ipaddress import ip_network
from itertools import zip_longest
from typing import Final

from sublet.dns.addresses import InvalidAddress, not_public_reason, parse_ipv4, parse_ipv6
from sublet.dns.ds import InvalidDs, ds_warnings, parse_ds
from sublet.dns.names import InvalidName, ancestors, is_at_or_below, parse_host_name
from sublet.dns.types import Delegation, DsLike, DsRecord, GlueEntry, GlueInput
from sublet.errors import FieldError

DS_RECORDS_MAX: Final = 8

LOOKED_AT_MAX: Final = 64
"""Nameservers and DS records that are looked at; of a longer list, which is refused, the others are only counted."""

GLUE_ENTRIES_MAX: Final = 104
"""Entries of glue that a request may have: eight for each of 13 nameservers."""

GLUE_ADDRESSES_MAX: Final = 8
"""Addresses of one host and family: no host needs more, and every referral carries them all."""


@dataclass(frozen=True, slots=True)
class _Nameservers:
    """The nameservers that are good names, with their places in the request; `all_valid` tells whether none was refused."""

    index_by_host: Mapping[str, int]
    all_valid: bool


def check_delegation(
    owner: str,
    nameservers: Sequence[str],
    glue: Sequence[GlueInput],
    ds_records: Sequence[DsLike],
    *,
    nameservers_min: int,
    nameservers_max: int,
) -> tuple[Delegation, tuple[FieldError, ...]]:
    """Return the delegation of the canonical name `owner` in canonical form, and everything that is wrong with it, at once.

    If there are errors the delegation must not be used. Nameservers keep their order; glue follows them, one entry a host unless it
    has more addresses of a family, exact duplicates merged; DS records keep their order, duplicates merged.
    `nameservers_min` counts only for a list that is not empty. Not checked: `find_nameserver_cycle`, and anything that a look into
    the DNS would tell.

    The errors come in this order: nameservers (`nameserver_invalid`, `nameserver_duplicate`, `too_many_nameservers`,
    `too_few_nameservers`), glue (`nameserver_invalid` for a host that is no name, `glue_not_allowed`, `glue_invalid`,
    `glue_not_public`, `glue_required`), DS records (`ds_invalid`, `too_many_ds_records`, `ds_without_nameservers`).
    """
    errors: list[FieldError] = []
    named = _check_nameservers(nameservers, errors)
    if len(nameservers) > nameservers_max:
        errors.append(
            FieldError(
                "nameservers",
                "too_many_nameservers",
                f"{len(nameservers)} nameservers are given; leave some out, {nameservers_max} at most are allowed here.",
            )
        )
    if nameservers and len(nameservers) < nameservers_min:
        errors.append(
            FieldError(
                "nameservers",
                "too_few_nameservers",
                f"Only {len(nameservers)} of at least {nameservers_min} nameservers given; give more, or none at all.",
            )
        )
    entries = _check_glue(owner, named, glue, errors)
    records = _check_ds_records(owner, ds_records, errors)
    if ds_records and not nameservers:
        errors.append(
            FieldError(
                "ds_records",
                "ds_without_nameservers",
                "DS records without nameservers make the name fail. Send nameservers too, or no DS records.",
            )
        )
    return Delegation(tuple(named.index_by_host), entries, records), tuple(errors)


def delegation_warnings(delegation: Delegation) -> tuple[str, ...]:
    """Return what is accepted and yet likely to hurt the registrant, as sentences (RFC 2182, sections 3.1 and 5; RFC 3901; `ds.ds_warnings`).

    Only what the delegation itself shows: where nameservers of other names stand is not looked up.
    """
    warnings = []
    hosts = frozenset(delegation.nameservers)
    with_glue = hosts & {entry.host for entry in delegation.glue}
    if len(hosts) == 1:
        warnings.append(
            "There is one nameserver only: when it is away, the name is away. Add a second one elsewhere."
        )
    if hosts and hosts == with_glue:
        places = {
            ip_network(f"{address}/{prefix_length}", strict=False)
            for entry in delegation.glue
            for address, prefix_length in ((entry.ipv4, 24), (entry.ipv6, 48))
            if address is not None
        }
        if len(hosts) > 1 and len({place.version for place in places}) == len(places):
            where = " and ".join(sorted(str(place) for place in places))
            warnings.append(
                f"All nameservers stand in one network ({where}): when it is away, the name is away. Add one elsewhere."
            )
        if not any(entry.ipv4 for entry in delegation.glue):
            warnings.append("No nameserver has an IPv4 address: resolvers without IPv6 can't find the name.")
    return (*warnings, *ds_warnings(delegation.ds_records))


def prune_glue(glue: Sequence[GlueEntry], nameservers: Sequence[str]) -> tuple[GlueInput, ...]:
    """Return the stored glue whose hosts are among the nameservers as sent; for a change that sends nameservers and no glue.

    What is no host name in `nameservers` is passed over: `check_delegation` refuses it.
    """
    hosts = set()
    for nameserver in nameservers[:LOOKED_AT_MAX]:
        try:
            hosts.add(parse_host_name(nameserver))
        except InvalidName:
            continue
    return tuple(GlueInput(entry.host, entry.ipv4, entry.ipv6) for entry in glue if entry.host in hosts)


def without_nameservers(delegation: Delegation, hosts: Collection[str]) -> Delegation:
    """Return a delegation without these nameservers and their glue; without DS records where no nameserver is left."""
    nameservers = tuple(host for host in delegation.nameservers if host not in hosts)
    return Delegation(
        nameservers,
        tuple(entry for entry in delegation.glue if entry.host not in hosts),
        delegation.ds_records if nameservers else (),
    )


def find_nameserver_cycle(
    owner: str, nameservers: Sequence[str], registered: Mapping[str, Sequence[str]]
) -> tuple[str, ...] | None:
    """Return the names that can only be found through each other once `owner` has these nameservers, or None.

    `registered` maps the other delegated names of the registry to their nameservers; all names are canonical. One nameserver that
    can be found is enough, and it can be found: at or below the name that it serves (it has glue there), outside every registered
    name, or below a registered name whose own delegation can be found without `owner`. A registered name without nameservers
    is not delegated, so nothing leads in a circle through it.

    The chain starts with `owner` and ends with the name it comes back to: `("a.test", "b.test", "a.test")`. Not checked: circles
    through names outside the registry.
    """
    seen = {owner}
    came_from: dict[str, str] = {}
    last: str | None = None
    waiting = deque([owner])
    while waiting:
        name = waiting.popleft()
        hosts = nameservers if name == owner else registered[name]
        if not hosts:
            return None
        for host in hosts:
            below = _registered_above(host, owner, registered)
            if below is None or below == name:
                return None
            if below not in seen:
                seen.add(below)
                came_from[below] = name
                waiting.append(below)
            elif below == owner and last is None:
                last = name
    if last is None:
        return _dead_end(owner, nameservers, registered)
    chain = [last]
    while chain[-1] != owner:
        chain.append(came_from[chain[-1]])
    return (*reversed(chain), owner)


def _dead_end(
    owner: str, nameservers: Sequence[str], registered: Mapping[str, Sequence[str]]
) -> tuple[str, ...]:
    """Return the way from `owner` by each name's first nameserver, up to the name that it meets again: all lead inside."""
    chain = [owner]
    while True:
        hosts = nameservers if chain[-1] == owner else registered[chain[-1]]
        below = _registered_above(hosts[0], owner, registered)
        assert below is not None  # noqa: S101 - else it could be found, and there would be no circle
        if below in chain:
            return (*chain, below)
        chain.append(below)


def _registered_above(host: str, owner: str, registered: Mapping[str, Sequence[str]]) -> str | None:
    """Return the nearest name at or above the host that is `owner` or registered, or None."""
    for name in (host, *ancestors(host)):
        if name == owner or name in registered:
            return name
    return None


def _check_nameservers(nameservers: Sequence[str], errors: list[FieldError]) -> _Nameservers:
    index_by_host: dict[str, int] = {}
    all_valid = True
    for index, text in enumerate(nameservers[:LOOKED_AT_MAX]):
        try:
            host = parse_host_name(text)
        except InvalidName as error:
            errors.append(FieldError(f"nameservers[{index}]", "nameserver_invalid", str(error)))
            all_valid = False
            continue
        if host in index_by_host:
            message = f"`{host}` is given twice. Leave one of them out."
            errors.append(FieldError(f"nameservers[{index}]", "nameserver_duplicate", message))
            continue
        index_by_host[host] = index
    return _Nameservers(index_by_host, all_valid)


def _check_glue(
    owner: str, named: _Nameservers, glue: Sequence[GlueInput], errors: list[FieldError]
) -> tuple[GlueEntry, ...]:
    # A dict keeps the order given and merges duplicates.
    addresses: dict[str, tuple[dict[str, None], dict[str, None]]] = {}
    if len(glue) > GLUE_ENTRIES_MAX:
        message = f"{len(glue)} entries are given; send {GLUE_ENTRIES_MAX} at most."
        errors.append(FieldError("glue", "glue_invalid", message))
    for index, given in enumerate(glue[:GLUE_ENTRIES_MAX]):
        field = f"glue[{index}]"
        host = _check_glue_host(owner, named, given.host, field, errors)
        if given.ipv4 is None and given.ipv6 is None:
            message = "The entry has no address; give `ipv4` or `ipv6`, or leave the entry out."
            errors.append(FieldError(field, "glue_invalid", message))
        ipv4, ipv6 = addresses.setdefault(host, ({}, {})) if host is not None else ({}, {})
        ipv4.update(dict.fromkeys(_check_addresses(given.ipv4, 4, f"{field}.ipv4", errors)))
        ipv6.update(dict.fromkeys(_check_addresses(given.ipv6, 6, f"{field}.ipv6", errors)))
    for host, families in addresses.items():
        if any(len(family) > GLUE_ADDRESSES_MAX for family in families):
            message = f"`{host}` has more than {GLUE_ADDRESSES_MAX} addresses of one family. Leave some out."
            errors.append(FieldError("glue", "glue_invalid", message))
    for host, index in named.index_by_host.items():
        if is_at_or_below(host, owner) and host not in addresses:
            message = f"`{host}` lies inside `{owner}`, so it can only be found by a glue address: give its public IPv4 or IPv6 address."
            errors.append(FieldError(f"nameservers[{index}]", "glue_required", message))
    return tuple(
        GlueEntry(host, ipv4, ipv6)
        for host in named.index_by_host
        if host in addresses
        for ipv4, ipv6 in zip_longest(*addresses[host])
    )


def _check_glue_host(
    owner: str, named: _Nameservers, text: str, field: str, errors: list[FieldError]
) -> str | None:
    """Return the host in canonical form if glue may be given for it."""
    try:
        host = parse_host_name(text)
    except InvalidName as error:
        errors.append(FieldError(f"{field}.host", "nameserver_invalid", str(error)))
        return None
    if not is_at_or_below(host, owner):
        message = f"`{host}` lies outside `{owner}`; its addresses are published where its own name is. Leave this entry out."
    elif host not in named.index_by_host and named.all_valid:
        message = f"`{host}` is not one of the nameservers. Leave this entry out, or add the nameserver."
    else:  # a host that none of the good nameservers has may be meant by the one that was refused
        return host
    errors.append(FieldError(f"{field}.host", "glue_not_allowed", message))
    return None


def _check_addresses(text: str | None, version: int, field: str, errors: list[FieldError]) -> Iterator[str]:
    """Yield the address in canonical form, or nothing."""
    if text is None:
        return
    try:
        address = parse_ipv4(text) if version == 4 else parse_ipv6(text)
    except InvalidAddress as error:
        errors.append(FieldError(field, "glue_invalid", str(error)))
        return
    reason = not_public_reason(address)
    if reason is not None:
        errors.append(FieldError(field, "glue_not_public", reason))
        return
    yield address


def _check_ds_records(
    owner: str, ds_records: Sequence[DsLike], errors: list[FieldError]
) -> tuple[DsRecord, ...]:
    records: dict[DsRecord, None] = {}
    invalid_count = 0
    for index, given in enumerate(ds_records[:LOOKED_AT_MAX]):
        try:
            records[parse_ds(owner, given)] = None
        except InvalidDs as error:
            field = f"ds_records[{index}]" + (f".{error.member}" if error.member else "")
            errors.append(FieldError(field, "ds_invalid", str(error)))
            invalid_count += 1
    count = len(records) + invalid_count + len(ds_records[LOOKED_AT_MAX:])
    if count > DS_RECORDS_MAX:
        message = f"{count} DS records are given; leave some out, {DS_RECORDS_MAX} at most are published."
        errors.append(FieldError("ds_records", "too_many_ds_records", message))
    return tuple(records)
