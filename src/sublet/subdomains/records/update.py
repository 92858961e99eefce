"""Apply a message of DNS UPDATE (RFC 2136) to the records of a name, in one transaction."""

from collections.abc import Iterable
from typing import Final

import dns.name
import dns.rcode
import dns.rdata
import dns.rdataclass
import dns.rdatatype
import dns.rrset
import dns.update
from dns.rdtypes.svcbbase import SVCBBase

from sublet.accounts.find import lock_holder
from sublet.audit import Actor
from sublet.credits.model import Outcome
from sublet.db import Tx
from sublet.dns.records import owner_of
from sublet.dns.types import RecordSetInput
from sublet.subdomains.find import find_in_account
from sublet.subdomains.records.change import ChangeRecords, change_records, refuse_restricted
from sublet.subdomains.records.rule import TTL_SECONDS_MAX, TTL_SECONDS_MIN

_ANY: Final = dns.rdatatype.ANY
_NONE: Final = (0, ())
"""An RRset without records."""
RRsets = dict[tuple[str, str], tuple[int, tuple[dns.rdata.Rdata, ...]]]
"""TTL and records by the owner relative to the name, and the type."""


class UpdateError(Exception):
    """The message is answered with `rcode`, and changes nothing."""

    def __init__(self, rcode: dns.rcode.Rcode) -> None:
        super().__init__(dns.rcode.to_text(rcode))
        self.rcode = rcode


def check_zone(fqdn: str, message: dns.update.UpdateMessage) -> None:
    """Raise `UpdateError` unless the zone is the name or its platform domain, and has all records.

    The rcodes are FORMERR (no zone), NOTAUTH (another zone) and NOTZONE (a record outside the zone; sections
    3.1, 3.2.5 and 3.4.1.3).
    """
    if len(message.zone) != 1:
        raise UpdateError(dns.rcode.FORMERR)
    zone = message.zone[0]
    text = zone.name.to_text(omit_final_dot=True).lower()
    if text not in (fqdn, fqdn.partition(".")[2]) or zone.rdclass != dns.rdataclass.IN:
        raise UpdateError(dns.rcode.NOTAUTH)
    for rrset in (*message.prerequisite, *message.update):
        if not rrset.name.is_subdomain(zone.name):
            raise UpdateError(dns.rcode.NOTZONE)


def check_sections(message: dns.update.UpdateMessage) -> None:
    """Raise `UpdateError` (FORMERR) for classes and types that no record may have here (sections 3.2 and
    3.4.1).

    Not checked: the TTLs, which `wire.py` checks, because the parsed message lacks some.
    """
    # dnspython gives records of the classes ANY and NONE the class of the zone.
    if any(rrset.rdclass != dns.rdataclass.IN for rrset in (*message.prerequisite, *message.update)):
        raise UpdateError(dns.rcode.FORMERR)
    for rrset in message.prerequisite:
        if dns.rdatatype.is_metatype(rrset.rdtype) and not (
            rrset.rdtype == _ANY and rrset.deleting is not None
        ):
            raise UpdateError(dns.rcode.FORMERR)
    for rrset in message.update:
        is_any = rrset.rdtype == _ANY and rrset.deleting == dns.rdataclass.ANY
        if dns.rdatatype.is_metatype(rrset.rdtype) and not is_any:
            raise UpdateError(dns.rcode.FORMERR)


def update_records(
    tx: Tx, actor: Actor, fqdn: str, message: dns.update.UpdateMessage, *, changes_per_day: int = 0
) -> Outcome:
    """Change the records of a name as a message says, if its prerequisites hold.

    Raises, in this order:
        AccountSuspended: the user is suspended.
        SubdomainNotFound: the user has no such name, the token is not for the name, or the name is in the
            trash.
        UpdateError: a prerequisite doesn't hold (NXDOMAIN, NXRRSET, YXDOMAIN, YXRRSET), or an owner is
            outside the name (REFUSED).
        TokenRestricted: the key may not change the records at one of the owners.
        Refusal: a refusal of `change_records`.
    """
    lock_holder(tx, actor)
    subdomain = find_in_account(tx, actor, fqdn)
    before: RRsets = {
        (each.name, each.type): (
            each.ttl_seconds,
            tuple(dns.rdata.from_text("IN", each.type, value) for value in each.values),
        )
        for each in subdomain.records
    }
    _check_prerequisites(subdomain.fqdn, before, message.prerequisite)
    # Also what changes nothing, such as a record beside a CNAME: permission is checked first (section 3.3).
    refuse_restricted(actor, [_owner(subdomain.fqdn, each.name) for each in message.update])
    after = dict(before)
    for rrset in message.update:
        _apply(subdomain.fqdn, after, rrset)
    changed = {key: after.get(key, _NONE) for key in before | after if before.get(key) != after.get(key)}
    # Owners are full names, so that none is taken for another.
    inputs = tuple(
        RecordSetInput(
            f"{owner_of(owner, fqdn)}.",
            type_name,
            tuple(each.to_text() for each in rdatas),
            ttl_seconds if rdatas else None,
        )
        for (owner, type_name), (ttl_seconds, rdatas) in changed.items()
    )
    return change_records(tx, actor, fqdn, ChangeRecords(inputs), changes_per_day=changes_per_day)


def _owner(fqdn: str, name: dns.name.Name) -> str:
    """Return an owner relative to the name.

    Raises:
        UpdateError: REFUSED: the owner is not at or below the name.
    """
    origin = dns.name.from_text(fqdn)
    if not name.is_subdomain(origin):
        raise UpdateError(dns.rcode.REFUSED)
    return name.relativize(origin).to_text().lower()


def _canonical(rrset: dns.rrset.RRset) -> list[dns.rdata.Rdata]:
    """Return the records with the target of an HTTPS or SVCB record in lower case, as it is stored.

    dnspython compares the names of all other types in any case.
    """
    return [
        each.replace(target=each.target.canonicalize()) if isinstance(each, SVCBBase) else each
        for each in rrset
    ]


def _types(rrsets: RRsets, owner: str) -> list[str]:
    return [each_type for each_owner, each_type in rrsets if each_owner == owner]


def _check_prerequisites(fqdn: str, rrsets: RRsets, prerequisites: Iterable[dns.rrset.RRset]) -> None:
    """Check the prerequisites (section 3.2)."""
    wanted: dict[tuple[str, str], set[dns.rdata.Rdata]] = {}
    for rrset in prerequisites:
        owner, must_exist = _owner(fqdn, rrset.name), rrset.deleting != dns.rdataclass.NONE
        key = (owner, dns.rdatatype.to_text(rrset.rdtype))
        if rrset.deleting is None:
            wanted.setdefault(key, set()).update(_canonical(rrset))
        elif rrset.rdtype == _ANY:
            if bool(_types(rrsets, owner)) != must_exist:
                raise UpdateError(dns.rcode.NXDOMAIN if must_exist else dns.rcode.YXDOMAIN)
        elif (key in rrsets) != must_exist:
            raise UpdateError(dns.rcode.NXRRSET if must_exist else dns.rcode.YXRRSET)
    for key, rdatas in wanted.items():
        if set(rrsets.get(key, _NONE)[1]) != rdatas:
            raise UpdateError(dns.rcode.NXRRSET)


def _apply(fqdn: str, rrsets: RRsets, rrset: dns.rrset.RRset) -> None:
    """Apply one record of the update section (section 3.4.2)."""
    owner, type_name = _owner(fqdn, rrset.name), dns.rdatatype.to_text(rrset.rdtype)
    key = (owner, type_name)
    if rrset.deleting == dns.rdataclass.ANY:
        for each in _types(rrsets, owner):
            if rrset.rdtype == _ANY or each == type_name:
                del rrsets[owner, each]
        return
    ttl_seconds, found = rrsets.get(key, _NONE)
    given = _canonical(rrset)
    kept = tuple(each for each in found if each not in given)
    if rrset.deleting == dns.rdataclass.NONE:
        rrsets[key] = (ttl_seconds, kept)
        if not kept:
            del rrsets[key]
        return
    others = [each for each in _types(rrsets, owner) if each != type_name]
    if "CNAME" in others or (type_name == "CNAME" and others):
        return  # section 3.4.2.2: ignored without an error
    # The TTL is the RRset's, and a client that sends one outside the limits can't be told.
    ttl_seconds = min(max(rrset.ttl, TTL_SECONDS_MIN), TTL_SECONDS_MAX)
    rrsets[key] = (ttl_seconds, (*(() if type_name == "CNAME" else kept), *given))
