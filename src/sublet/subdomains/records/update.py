"""Apply a message of DNS UPDATE (RFC 2136) to the records of a name: prerequisites, then changes, in one transaction."""

from collections.abc import Iterable
from typing import Final

import dns.name
import dns.rcode
import dns.rdata
import dns.rdataclass
import dns.rdatatype
import dns.rrset
import dns.update

from sublet.accounts.find import lock_holder
from sublet.audit import Actor
from sublet.credits.model import Outcome
from sublet.db import Tx
from sublet.dns.types import RecordSet, RecordSetInput
from sublet.subdomains.find import find_in_account
from sublet.subdomains.records.change import ChangeRecords, change_records
from sublet.subdomains.records.rule import TTL_SECONDS_MAX, TTL_SECONDS_MIN

_ANY: Final = dns.rdatatype.ANY
Key = tuple[str, str]
"""The owner of an RRset relative to the name, and its type."""


class UpdateError(Exception):
    """The message is answered with `rcode`, and changes nothing."""

    def __init__(self, rcode: dns.rcode.Rcode) -> None:
        super().__init__(dns.rcode.to_text(rcode))
        self.rcode = rcode


class Records:
    """The RRsets of a name while a message is applied."""

    def __init__(self, fqdn: str, stored: Iterable[RecordSet]) -> None:
        self._fqdn = fqdn
        self._origin = dns.name.from_text(fqdn)
        self._stored = {(each.name, each.type): each for each in stored}
        self._changed: dict[Key, tuple[int, tuple[dns.rdata.Rdata, ...]]] = {}

    def owner(self, name: dns.name.Name) -> str:
        """Return an owner relative to the name.

        Raises:
            UpdateError: REFUSED: the owner is not at or below the name.
        """
        if not name.is_subdomain(self._origin):
            raise UpdateError(dns.rcode.REFUSED)
        return name.relativize(self._origin).to_text().lower()

    def find(self, key: Key) -> tuple[dns.rdata.Rdata, ...]:
        """Return the records of an RRset; empty if there is none."""
        if key in self._changed:
            return self._changed[key][1]
        found = self._stored.get(key)
        if found is None:
            return ()
        return tuple(dns.rdata.from_text("IN", found.type, value) for value in found.values)

    def types(self, owner: str) -> list[str]:
        """Return the types at an owner."""
        keys = {key: None for key in (*self._stored, *self._changed) if key[0] == owner}
        return [key[1] for key in keys if self.find(key)]

    def set(self, key: Key, ttl_seconds: int, rdatas: tuple[dns.rdata.Rdata, ...]) -> None:
        """Replace an RRset. Without records it is removed."""
        self._changed[key] = (ttl_seconds, rdatas)

    def ttl_seconds(self, key: Key) -> int:
        """Return the TTL of an RRset; 0 if there is none."""
        if key in self._changed:
            return self._changed[key][0]
        return self._stored[key].ttl_seconds if key in self._stored else 0

    def changes(self) -> tuple[RecordSetInput, ...]:
        """Return the RRsets that were set, with full names, so that no owner is taken for another."""
        return tuple(
            RecordSetInput(
                "@" if owner == "@" else f"{owner}.{self._fqdn}.",
                type_name,
                tuple(each.to_text() for each in rdatas),
                ttl_seconds if rdatas else None,
            )
            for (owner, type_name), (ttl_seconds, rdatas) in self._changed.items()
        )


def check_zone(fqdn: str, message: dns.update.UpdateMessage) -> None:
    """Raise `UpdateError` unless the zone of a message is the name or its platform domain, and all its records are in it.

    The rcodes are FORMERR (no zone), NOTAUTH (another zone) and NOTZONE (a record outside the zone; sections 3.1, 3.2.5 and 3.4.1.3).
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
    """Raise `UpdateError` (FORMERR) for types that no record of these sections may have (sections 3.2 and 3.4.1).

    Not checked: the TTLs, which `wire.py` checks, because the parsed message lacks some.
    """
    for rrset in message.prerequisite:
        if dns.rdatatype.is_metatype(rrset.rdtype) and not (
            rrset.rdtype == _ANY and rrset.deleting is not None
        ):
            raise UpdateError(dns.rcode.FORMERR)
    for rrset in message.update:
        is_any = rrset.rdtype == _ANY and rrset.deleting == dns.rdataclass.ANY
        if dns.rdatatype.is_metatype(rrset.rdtype) and not is_any:
            raise UpdateError(dns.rcode.FORMERR)


def update_records(tx: Tx, actor: Actor, fqdn: str, message: dns.update.UpdateMessage) -> Outcome:
    """Change the records of a name as a message says, if its prerequisites hold.

    Raises, in this order:
        AccountSuspended: the user is suspended.
        SubdomainNotFound: the user has no such name, the token is not for the name, or the name is in the trash.
        UpdateError: a prerequisite doesn't hold (NXDOMAIN, NXRRSET, YXDOMAIN, YXRRSET), or an owner is outside the name (REFUSED).
        Refusal: a refusal of `change_records`.
    """
    lock_holder(tx, actor)
    subdomain = find_in_account(tx, actor, fqdn)
    records = Records(subdomain.fqdn, subdomain.records)
    _check_prerequisites(records, message.prerequisite)
    for rrset in message.update:
        _apply(records, rrset)
    return change_records(tx, actor, fqdn, ChangeRecords(records.changes()))


def _check_prerequisites(records: Records, prerequisites: Iterable[dns.rrset.RRset]) -> None:
    """Check the prerequisites (section 3.2)."""
    wanted: dict[Key, set[dns.rdata.Rdata]] = {}
    for rrset in prerequisites:
        owner, must_exist = records.owner(rrset.name), rrset.deleting != dns.rdataclass.NONE
        key = (owner, dns.rdatatype.to_text(rrset.rdtype))
        if rrset.deleting is None:
            wanted.setdefault(key, set()).update(rrset)
        elif rrset.rdtype == _ANY:
            if bool(records.types(owner)) != must_exist:
                raise UpdateError(dns.rcode.NXDOMAIN if must_exist else dns.rcode.YXDOMAIN)
        elif bool(records.find(key)) != must_exist:
            raise UpdateError(dns.rcode.NXRRSET if must_exist else dns.rcode.YXRRSET)
    for key, rdatas in wanted.items():
        if set(records.find(key)) != rdatas:
            raise UpdateError(dns.rcode.NXRRSET)


def _apply(records: Records, rrset: dns.rrset.RRset) -> None:
    """Apply one record of the update section (section 3.4.2)."""
    owner = records.owner(rrset.name)
    key = (owner, dns.rdatatype.to_text(rrset.rdtype))
    if rrset.deleting == dns.rdataclass.ANY:
        for type_name in records.types(owner):
            if rrset.rdtype == _ANY or type_name == key[1]:
                records.set((owner, type_name), 0, ())
        return
    found = records.find(key)
    if rrset.deleting == dns.rdataclass.NONE:
        if found:
            kept = tuple(each for each in found if each not in rrset)
            records.set(key, records.ttl_seconds(key), kept)
        return
    others = [each for each in records.types(owner) if each != key[1]]
    if "CNAME" in others or (key[1] == "CNAME" and others):
        return  # section 3.4.2.2: ignored without an error
    # The TTL is the RRset's, and a client that sends one outside the limits can't be told.
    ttl_seconds = min(max(rrset.ttl, TTL_SECONDS_MIN), TTL_SECONDS_MAX)
    added = tuple(rrset)
    kept = () if key[1] == "CNAME" else tuple(each for each in found if each not in added)
    records.set(key, ttl_seconds, (*kept, *added))
