"""The operator's own records in a zone on the built-in name server (`sublet zone record`)."""

from collections.abc import Sequence

from sublet import audit
from sublet.audit import Actor
from sublet.db import Tx
from sublet.dns.names import InvalidName, ancestors, is_at_or_below, is_below, shown
from sublet.dns.records import owner_of, sets_of_records
from sublet.dns.serial import next_serial
from sublet.dns.types import RECORD_TYPES, Record, RecordSet, RecordSetInput
from sublet.errors import Conflict, FieldError, NotFound, validation_failed
from sublet.platform_domains import store as platform_domain_store
from sublet.platform_domains import zone_store
from sublet.platform_domains.model import PlatformDomain
from sublet.platform_domains.platform_domain import find_platform_domain
from sublet.structs import replace
from sublet.subdomains import store
from sublet.subdomains.records.rule import check_records, parse_owner

TTL_SECONDS_DEFAULT = 3600
_OF_THE_ZONE = ("NS", "SOA")
_RESERVED_OWNERS = ("_dsync", "_sublet")
"""Labels directly below the apex, at and below which the registry has records of its own."""


def set_zone_record(
    tx: Tx,
    actor: Actor,
    identifier: str,
    owner: str,
    type_name: str,
    values: Sequence[str],
    *,
    ttl_seconds: int = TTL_SECONDS_DEFAULT,
) -> RecordSet:
    """Store an RRset of a zone, in place of the one that has this owner and type.

    Return it in canonical form, and raise the serial.

    Names at or above its owner can't be registered from then on. An RRset that is stored already changes
    nothing.

    Raises, in this order:
        NotFound: no such platform domain.
        Conflict: the zone is on a primary.
        ValidationFailed: all wrong fields (`check_records`; SOA and NS are settings; a CNAME at the apex).
        Conflict: the owner is at or below a name that is registered or not released yet, a platform domain,
            an adopted delegation, or an owner of the registry; a CNAME would not be alone.
    """
    platform_domain = _lock_built_in(tx, identifier)
    wanted = RecordSetInput(owner, type_name, tuple(values), ttl_seconds)
    rrset = _check(platform_domain, wanted)
    name = owner_of(rrset.name, platform_domain.domain)
    _refuse_foreign_owner(tx, platform_domain, name)
    at_owner = zone_store.find_records(tx, platform_domain.id, [name]).get(name, ())
    _refuse_alias_beside_others(platform_domain, rrset, name, {each.type for each in at_owner})
    before = [each for each in at_owner if each.type == rrset.type]
    after = [Record(name, rrset.type, rrset.ttl_seconds, value) for value in rrset.values]
    if set(before) != set(after):
        _replace(tx, actor, platform_domain, "zone_record.set", before, after)
    return rrset


def remove_zone_record(tx: Tx, actor: Actor, identifier: str, owner: str, type_name: str) -> RecordSet:
    """Delete an RRset of a zone, also an adopted one. Return what was deleted, and raise the serial.

    Raises, in this order:
        NotFound: no such platform domain.
        Conflict: the zone is on a primary.
        NotFound: the zone has no such record.
    """
    platform_domain = _lock_built_in(tx, identifier)
    zone, upper = platform_domain.domain, type_name.upper()
    try:
        relative = parse_owner(zone, owner)
    except InvalidName:
        relative = owner.lower()  # an adopted record may have an owner that the rule refuses
    name = owner_of(relative, zone)
    at_owner = zone_store.find_records(tx, platform_domain.id, [name]).get(name, ())
    before = [each for each in at_owner if each.type == upper]
    if not before:
        raise NotFound(
            f"{zone} has no {shown(upper)} record at `{shown(owner)}`. `sublet zone record list {zone}` "
            "lists its records."
        )
    _replace(tx, actor, platform_domain, "zone_record.remove", before, [])
    return RecordSet(relative, upper, before[0].ttl_seconds, tuple(sorted(each.rdata for each in before)))


def list_zone_record_sets(tx: Tx, identifier: str) -> list[RecordSet]:
    """Return the RRsets that the operator set in a zone, and the adopted ones.

    Raises, in this order:
        NotFound: no such platform domain.
        Conflict: the zone is on a primary.
    """
    platform_domain = find_platform_domain(tx, identifier)
    _refuse_primary(platform_domain)
    records = zone_store.list_zone_records(tx, platform_domain.id)
    sets = sets_of_records(platform_domain.domain, records)
    return sorted(sets, key=lambda each: (each.name != "@", each.name, each.type))


def _lock_built_in(tx: Tx, identifier: str) -> PlatformDomain:
    """Lock a zone, also against new registrations, and return its platform domain."""
    platform_domain_store.lock_against_registrations(tx, find_platform_domain(tx, identifier).id)
    found = find_platform_domain(tx, identifier)
    _refuse_primary(found)
    return found


def _refuse_primary(platform_domain: PlatformDomain) -> None:
    if platform_domain.primary:
        raise Conflict(
            f"The zone {platform_domain.domain} is on the primary {platform_domain.primary}, which has its "
            f"records. Edit the zone there; `sublet zone check {platform_domain.domain}` lists them."
        )


def _check(platform_domain: PlatformDomain, wanted: RecordSetInput) -> RecordSet:
    """Return the RRset in canonical form. The limits of registrants' records don't apply."""
    if wanted.type.upper() in _OF_THE_ZONE:
        message = (
            "The SOA and NS records of a zone are settings: `sublet domain edit`. NS records below it "
            "belong to registered names."
        )
        raise validation_failed([FieldError("type", "value_invalid", message)])
    unlimited = replace(
        platform_domain,
        record_types=RECORD_TYPES,
        record_octets_max=65_535,
        record_wildcards=True,
        record_private_addresses=True,
    )
    sets, errors = check_records(platform_domain.domain, [wanted], unlimited)
    if errors:
        raise validation_failed(
            [replace(each, field=each.field.removeprefix("records[0].")) for each in errors]
        )
    if (sets[0].name, sets[0].type) == ("@", "CNAME"):
        message = (
            f"{platform_domain.domain} has SOA and NS records, so it can't have a CNAME. Give its "
            "addresses (A, AAAA), or HTTPS."
        )
        raise validation_failed([FieldError("type", "cname_not_alone", message)])
    return sets[0]


def _refuse_foreign_owner(tx: Tx, platform_domain: PlatformDomain, name: str) -> None:
    """Raise `Conflict` if the owner is another's: a registrant's, another zone's or the registry's."""
    zone = platform_domain.domain
    path = [each for each in (name, *ancestors(name)) if is_below(each, zone)]
    held = store.list_unreleased_names(tx, path)
    if held:
        raise Conflict(
            f"{held[0]} is registered, or was recently, and only its holder sets records there. Choose "
            "another owner."
        )
    nested = platform_domain_store.find_platform_domains_among(tx, path)
    if nested:
        raise Conflict(
            f"{nested[0].domain} is a zone of its own. Set the record there: `sublet zone record set "
            f"{nested[0].domain}`."
        )
    reserved = [label for label in _RESERVED_OWNERS if is_at_or_below(name, f"{label}.{zone}")]
    if reserved:
        raise Conflict(
            f"The registry sets the records at and below {reserved[0]}.{zone}. Choose another owner."
        )
    adopted = zone_store.find_records(tx, platform_domain.id, path)
    cuts = [owner for owner, records in adopted.items() if any(each.type == "NS" for each in records)]
    if cuts:
        raise Conflict(
            f"{cuts[0]} is delegated by an adopted NS record, so resolvers would not see the record. "
            "Remove the NS record first."
        )


def _refuse_alias_beside_others(
    platform_domain: PlatformDomain, rrset: RecordSet, name: str, types: set[str]
) -> None:
    """Raise `Conflict` if a CNAME would not be alone at its owner (RFC 1034, section 3.6.2)."""
    others = types - {rrset.type}
    if name in platform_domain.apex_nameservers:
        others = others | {"A", "AAAA"}  # the built-in name server adds its addresses
    if others and (rrset.type == "CNAME" or "CNAME" in others):
        raise Conflict(
            f"A CNAME must be alone, and {name} has {', '.join(sorted(others))} records. Remove them, or "
            "choose another owner."
        )


def _replace(
    tx: Tx,
    actor: Actor,
    platform_domain: PlatformDomain,
    action: str,
    before: Sequence[Record],
    after: Sequence[Record],
) -> None:
    """Replace stored records of an RRset, raise the serial, and write the audit event."""
    zone_store.delete_these_records(tx, platform_domain.id, before)
    zone_store.insert_records(tx, platform_domain.id, after)
    serial = next_serial(platform_domain.serial)
    platform_domain_store.update_platform_domain(tx, platform_domain.id, serial=serial)
    audit.record(
        tx,
        actor,
        action,
        platform_domain.id,
        object_type="platform_domain",
        before=_describe(before) | {"serial": platform_domain.serial},
        after=_describe(after) | {"serial": serial},
    )


def _describe(records: Sequence[Record]) -> dict[str, object]:
    if not records:
        return {}
    first = records[0]
    values = sorted(each.rdata for each in records)
    return {"owner": first.owner, "type": first.type, "ttl_seconds": first.ttl_seconds, "values": values}
