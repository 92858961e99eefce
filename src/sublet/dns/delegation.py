"""Check the nameservers, the glue and the DS records of a delegation, each alone and all together."""

from collections import deque
from collections.abc import Collection, Iterator, Mapping, Sequence
from contextlib import suppress
from ipaddress import ip_network
from itertools import zip_longest
from typing import Final

from msgspec import Struct

from sublet.counted import counted
from sublet.dns.addresses import InvalidAddress, not_public_reason, parse_ipv4, parse_ipv6
from sublet.dns.ds import InvalidDs, ds_warnings, parse_ds
from sublet.dns.names import InvalidName, ancestors, is_at_or_below, parse_host_name
from sublet.dns.types import Delegation, DsLike, DsRecord, GlueEntry
from sublet.errors import FieldError

DS_RECORDS_MAX: Final = 8

CHECKED_MAX: Final = 64
"""The maximum number of nameservers, and of DS records, that are checked one by one. Longer lists are refused
anyway.
"""

GLUE_ENTRIES_MAX: Final = 104
"""The maximum number of glue entries in a request: eight for each of 13 nameservers."""

GLUE_ADDRESSES_MAX: Final = 8
"""The maximum number of addresses of a host for each IP version. Each referral contains all addresses."""


class _Nameservers(Struct, frozen=True):
    """The valid nameservers with their index in the request.

    `all_valid` is True if no nameserver was refused.
    """

    index_by_host: Mapping[str, int]
    all_valid: bool


def check_delegation(
    owner: str,
    nameservers: Sequence[str],
    glue: Sequence[GlueEntry],
    ds_records: Sequence[DsLike],
    *,
    nameservers_min: int,
    nameservers_max: int,
) -> tuple[Delegation, tuple[FieldError, ...]]:
    """Return the delegation of the canonical name `owner` in canonical form, and all errors.

    Use the delegation only if there are no errors.

    Nameservers and DS records keep their order. Glue has the order of the nameservers. Equal glue and equal
    DS records are merged. A host has several glue entries if it has several addresses of an IP version.
    `nameservers_min` doesn't apply to an empty list.

    The errors are in this order: nameservers (`nameserver_invalid`, `nameserver_duplicate`,
    `too_many_nameservers`, `too_few_nameservers`), glue (`nameserver_invalid` for its host,
    `glue_not_allowed`, `glue_invalid`, `glue_not_public`, `glue_required`), DS records (`ds_invalid`,
    `too_many_ds_records`, `ds_without_nameservers`). Not checked: cycles (`find_nameserver_cycle`), and the
    hosts' records in the DNS.
    """
    errors: list[FieldError] = []
    named = _check_nameservers(nameservers, errors)
    if len(nameservers) > nameservers_max:
        errors.append(
            FieldError(
                "nameservers",
                "too_many_nameservers",
                f"{len(nameservers)} nameservers are too many. Give at most {nameservers_max}.",
            )
        )
    if nameservers and len(nameservers) < nameservers_min:
        errors.append(
            FieldError(
                "nameservers",
                "too_few_nameservers",
                f"{counted(len(nameservers), 'nameserver')} {'is' if len(nameservers) == 1 else 'are'} too "
                f"few. Give at least {nameservers_min}, or none.",
            )
        )
    entries = _check_glue(owner, named, glue, errors)
    records = _check_ds_records(owner, ds_records, errors)
    if ds_records and not nameservers:
        errors.append(
            FieldError(
                "ds_records",
                "ds_without_nameservers",
                "DS records without nameservers make the name fail. Give nameservers too, or no DS records.",
            )
        )
    return Delegation(tuple(named.index_by_host), entries, records), tuple(errors)


def delegation_warnings(delegation: Delegation) -> tuple[str, ...]:
    """Return warnings about valid values that may harm the registrant (RFC 2182, sections 3.1 and 5; RFC
    3901; `ds.ds_warnings`).

    Not checked: the addresses of nameservers outside the delegated name.
    """
    warnings = []
    hosts = frozenset(delegation.nameservers)
    with_glue = hosts & {entry.host for entry in delegation.glue}
    if len(hosts) == 1:
        warnings.append(
            "There is only one nameserver: if it fails, the name fails. Add a second one in another network."
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
                f"All nameservers are in one network ({where}): if it fails, the name fails. Add one in "
                "another network."
            )
        if not any(entry.ipv4 for entry in delegation.glue):
            warnings.append("No nameserver has an IPv4 address: resolvers without IPv6 can't find the name.")
    return (*warnings, *ds_warnings(delegation.ds_records))


def prune_glue(glue: Sequence[GlueEntry], nameservers: Sequence[str]) -> tuple[GlueEntry, ...]:
    """Return the stored glue of hosts in `nameservers`, for a request that sends nameservers and no glue.

    Invalid host names are skipped, because `check_delegation` refuses them.
    """
    hosts = valid_hosts(nameservers)
    return tuple(entry for entry in glue if entry.host in hosts)


def valid_hosts(nameservers: Sequence[str]) -> set[str]:
    """Return the canonical names of the nameservers in a request, without invalid ones."""
    hosts = set()
    for nameserver in nameservers[:CHECKED_MAX]:
        with suppress(InvalidName):
            hosts.add(parse_host_name(nameserver))
    return hosts


def without_nameservers(delegation: Delegation, hosts: Collection[str]) -> Delegation:
    """Return a delegation without these nameservers and their glue, and without DS records if no nameserver
    is left.
    """
    nameservers = tuple(host for host in delegation.nameservers if host not in hosts)
    return Delegation(
        nameservers,
        tuple(entry for entry in delegation.glue if entry.host not in hosts),
        delegation.ds_records if nameservers else (),
    )


def find_nameserver_cycle(
    owner: str, nameservers: Sequence[str], registered: Mapping[str, Sequence[str]]
) -> tuple[str, ...] | None:
    """Return a cycle of names that would resolve only through each other if `owner` had these nameservers, or
    None.

    `registered` maps the other delegated names of the registry to their nameservers. All names are canonical.
    A name resolves if one of its nameservers does. A nameserver resolves if it is at or below the name that
    it serves (by glue), outside all registered names, or at or below a registered name that resolves without
    `owner`. Registered names without nameservers are not delegated, so no cycle goes through them.

    The cycle starts with `owner` and ends with the repeated name: `("a.test", "b.test", "a.test")`. Not
    checked: cycles through names outside the registry.
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
        return _first_cycle(owner, nameservers, registered)
    chain = [last]
    while chain[-1] != owner:
        chain.append(came_from[chain[-1]])
    return (*reversed(chain), owner)


def _first_cycle(
    owner: str, nameservers: Sequence[str], registered: Mapping[str, Sequence[str]]
) -> tuple[str, ...]:
    """Return a cycle if no nameserver leads back to `owner`: from each name to the registered name at or
    above its first nameserver.
    """
    chain = [owner]
    while True:
        hosts = nameservers if chain[-1] == owner else registered[chain[-1]]
        below = _registered_above(hosts[0], owner, registered)
        assert below is not None  # noqa: S101 - otherwise the name resolves
        if below in chain:
            return (*chain, below)
        chain.append(below)


def _registered_above(host: str, owner: str, registered: Mapping[str, Sequence[str]]) -> str | None:
    """Return the host or its nearest ancestor that is `owner` or in `registered`; None if there is none."""
    for name in (host, *ancestors(host)):
        if name == owner or name in registered:
            return name
    return None


def _check_nameservers(nameservers: Sequence[str], errors: list[FieldError]) -> _Nameservers:
    index_by_host: dict[str, int] = {}
    all_valid = True
    for index, text in enumerate(nameservers[:CHECKED_MAX]):
        try:
            host = parse_host_name(text)
        except InvalidName as error:
            errors.append(FieldError(f"nameservers[{index}]", "nameserver_invalid", str(error)))
            all_valid = False
            continue
        if host in index_by_host:
            message = f"`{host}` is given twice. Remove one of the two."
            errors.append(FieldError(f"nameservers[{index}]", "nameserver_duplicate", message))
            continue
        index_by_host[host] = index
    return _Nameservers(index_by_host, all_valid)


def _check_glue(
    owner: str, named: _Nameservers, glue: Sequence[GlueEntry], errors: list[FieldError]
) -> tuple[GlueEntry, ...]:
    # A dict keeps the order and merges duplicates.
    addresses: dict[str, tuple[dict[str, None], dict[str, None]]] = {}
    if len(glue) > GLUE_ENTRIES_MAX:
        message = f"{len(glue)} glue entries are too many. Give at most {GLUE_ENTRIES_MAX}."
        errors.append(FieldError("glue", "glue_invalid", message))
    for index, entry in enumerate(glue[:GLUE_ENTRIES_MAX]):
        field = f"glue[{index}]"
        host = _check_glue_host(owner, named, entry.host, field, errors)
        if entry.ipv4 is None and entry.ipv6 is None:
            message = "The entry has no address. Give `ipv4` or `ipv6`, or remove the entry."
            errors.append(FieldError(field, "glue_invalid", message))
        ipv4, ipv6 = addresses.setdefault(host, ({}, {})) if host is not None else ({}, {})
        ipv4.update(dict.fromkeys(_check_addresses(entry.ipv4, 4, f"{field}.ipv4", errors)))
        ipv6.update(dict.fromkeys(_check_addresses(entry.ipv6, 6, f"{field}.ipv6", errors)))
    for host, families in addresses.items():
        if any(len(family) > GLUE_ADDRESSES_MAX for family in families):
            message = f"`{host}` has more than {GLUE_ADDRESSES_MAX} addresses of one IP version. Remove some."
            errors.append(FieldError("glue", "glue_invalid", message))
    for host, index in named.index_by_host.items():
        if is_at_or_below(host, owner) and host not in addresses:
            message = (
                f"`{host}` is inside `{owner}`, so resolvers need its address to find it. Give its public "
                "IPv4 or IPv6 address as glue."
            )
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
    """Return the host in canonical form if it may have glue, or None."""
    try:
        host = parse_host_name(text)
    except InvalidName as error:
        errors.append(FieldError(f"{field}.host", "nameserver_invalid", str(error)))
        return None
    if not is_at_or_below(host, owner):
        message = (
            f"`{host}` is outside `{owner}`, so its addresses are published with its own name. Remove this "
            "entry."
        )
    elif host not in named.index_by_host and named.all_valid:
        message = f"`{host}` is not one of the nameservers. Remove this entry, or add the nameserver."
    else:  # the host is one of the nameservers, or may be meant by a refused one
        return host
    errors.append(FieldError(f"{field}.host", "glue_not_allowed", message))
    return None


def _check_addresses(text: str | None, version: int, field: str, errors: list[FieldError]) -> Iterator[str]:
    """Yield the address in canonical form if it is valid and public."""
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
    """Return the valid DS records.

    Equal records (key tag, algorithm, digest type and digest) count once, also against the maximum.
    """
    records: dict[DsRecord, None] = {}
    invalid_count = 0
    for index, ds_record in enumerate(ds_records[:CHECKED_MAX]):
        try:
            records[parse_ds(owner, ds_record)] = None
        except InvalidDs as error:
            field = f"ds_records[{index}]" + (f".{error.member}" if error.member else "")
            errors.append(FieldError(field, "ds_invalid", str(error)))
            invalid_count += 1
    count = len(records) + invalid_count + len(ds_records[CHECKED_MAX:])
    if count > DS_RECORDS_MAX:
        message = f"{count} DS records are too many. Give at most {DS_RECORDS_MAX}."
        errors.append(FieldError("ds_records", "too_many_ds_records", message))
    return tuple(records)
