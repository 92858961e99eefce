"""Decide whether a zone's CSYNC record changes the name's nameservers and glue (rules; RFC 7477)."""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from datetime import UTC, datetime

import dns.dnssec
import dns.message
import dns.name
import dns.rdata
import dns.rdatatype
import dns.rrset
from dns.dnssectypes import NSEC3Hash
from dns.rdtypes.ANY.CSYNC import CSYNC
from dns.rdtypes.ANY.DNSKEY import DNSKEY
from dns.rdtypes.ANY.RRSIG import RRSIG
from msgspec import Struct

from sublet.child_zones.cds_answers import silent_servers, usable_message
from sublet.child_zones.model import Change, CsyncDecision, Keep, Refuse, ReplayGuard
from sublet.dns.names import is_at_or_below
from sublet.dns.serial import is_newer
from sublet.dns.types import Delegation, DsRecord, GlueEntry
from sublet.health.chain import KEYS_MAX, denials_in, matching_keys, valid_signatures
from sublet.health.denial import types_in
from sublet.health.model import Observation, Question, Server, Target, find_rrset, name_of, text_of
from sublet.health.observe import glue_addresses

IMMEDIATE, SOA_MINIMUM = 1, 2
TYPES = frozenset({"NS", "A", "AAAA"})
HOSTS_MAX = 13
_FAMILIES = (("A", 4), ("AAAA", 6))
_DIFFERENCES = frozenset({"ns_set_differs", "glue_differs"})
ITERATIONS_MAX = 50
"""The maximum number of NSEC3 iterations that are computed. RFC 9276 recommends 0."""


class SignedRecords(Struct, frozen=True):
    """A set of records, and when it was signed.

    If the set is empty, the proof of its absence was signed then.
    """

    records: frozenset[str]
    at: datetime


class NotAuthentic(Exception):  # noqa: N818 - the result of a validation, not an error
    """The answer to `question` has no valid signature."""

    def __init__(self, question: Question) -> None:
        super().__init__(question)
        self.question = question


def has_csync(target: Target, seen: Observation) -> bool:
    """True if a nameserver publishes a CSYNC record."""
    replies = [usable_message(each.extra.get((target.fqdn, "CSYNC"))) for each in seen.servers]
    return any(find_rrset(each, name_of(target.fqdn), "CSYNC") for each in replies)


def is_different(codes: Iterable[str]) -> bool:
    """True if one of these codes says that the zone has other nameservers or addresses than the registry."""
    return not _DIFFERENCES.isdisjoint(codes)


def questions_about(target: Target, seen: Observation) -> list[Question]:
    """Return the questions to all nameservers before a change.

    The SOA record comes last, to detect a change of the zone meanwhile.
    """
    fqdn = target.fqdn
    named = [
        str(each).rstrip(".").lower()
        for server in seen.servers
        for each in find_rrset(usable_message(server.nameservers), name_of(fqdn), "NS") or ()
    ]
    hosts = [
        each for each in dict.fromkeys(named or target.delegation.nameservers) if is_at_or_below(each, fqdn)
    ]
    addresses = [(host, family) for host in hosts[:HOSTS_MAX] for family, _ in _FAMILIES]
    return [*((fqdn, each) for each in ("DNSKEY", "CSYNC", "NS")), *addresses, (fqdn, "SOA")]


def decide_for_all_servers(
    target: Target, seen: Observation, questions: Sequence[Question], guard: ReplayGuard, now: datetime
) -> CsyncDecision:
    """Return the decision about a name's nameservers and glue.

    All nameservers must have the same records, at every address.

    Addresses without a route from this machine don't count, but each nameserver must have answered at some
    address. Not checked: the registry's own rules, and that the new nameservers work.
    """
    servers = [each for each in seen.servers if each.soa.failure != "no_route"]
    read = [_read(each, questions) for each in servers]
    silent = silent_servers(target, seen, servers, read)
    if silent:
        return Refuse(
            "servers_silent",
            "Not every nameserver answered over TCP about its CSYNC, NS and address records: "
            f"{', '.join(silent)}. Check the nameservers.",
        )
    versions = []
    for each in read:
        version = _validated_zone(target, each or {}, now)
        if isinstance(version, Refuse):
            return version
        versions.append(version)
    first = versions[0]
    contents = {
        frozenset((question, each.records) for question, each in version.items() if question[1] != "SOA")
        for version in versions
    }
    before = {_serial(usable_message(each.soa_tcp), target.fqdn) for each in servers}
    after = {_serial_of_zone(each, target.fqdn) for each in versions}
    if len(contents) > 1 or len(before | after) > 1:
        return Refuse(
            "servers_differ",
            "The nameservers publish different versions of the zone, or it changed during the check. Wait "
            "until all nameservers have the newest version. If the difference stays, check the zone "
            "transfers.",
        )
    oldest = {
        question: SignedRecords(each.records, min(version[question].at for version in versions))
        for question, each in first.items()
    }
    return _Zone(target, oldest, _serial_of_zone(first, target.fqdn)).decide(guard)


def _read(server: Server, questions: Sequence[Question]) -> dict[Question, dns.message.Message] | None:
    found = {each: usable_message(server.extra.get(each)) for each in questions}
    if usable_message(server.soa_tcp) is None or None in found.values():
        return None
    return {question: message for question, message in found.items() if message is not None}


def _validated_zone(
    target: Target, messages: Mapping[Question, dns.message.Message], now: datetime
) -> dict[Question, SignedRecords] | Refuse:
    fqdn = target.fqdn
    keys = _zone_keys(fqdn, target.delegation.ds_records, messages[fqdn, "DNSKEY"], now)
    if keys is None:
        return Refuse(
            "chain_broken",
            "The zone's DNSKEY records don't validate under its DS records. Sign the zone again with a key "
            "that a DS record matches, or correct the DS records of the name by hand.",
        )
    try:
        return _signed_answers(fqdn, messages, keys, now)
    except NotAuthentic as error:
        owner, rdtype = error.question
        return Refuse(
            "not_authentic",
            f"The {rdtype} records of {owner}, or the proof of their absence, have no valid signature. "
            "Sign the zone again.",
        )


def _serial(message: dns.message.Message | None, fqdn: str) -> int | None:
    found = find_rrset(message, name_of(fqdn), "SOA")
    return int(found[0].serial) if found else None


def _serial_of_zone(version: Mapping[Question, SignedRecords], fqdn: str) -> int:
    (soa,) = version[fqdn, "SOA"].records or ("- - 0",)
    return int(soa.split(" ")[2])


class _Zone(Struct, frozen=True):
    """The validated records of a child's zone."""

    target: Target
    zone: Mapping[Question, SignedRecords]
    serial: int

    def decide(self, guard: ReplayGuard) -> CsyncDecision:
        """Return the decision that the zone's CSYNC record leads to."""
        wanted = self.zone[self.target.fqdn, "CSYNC"].records
        if not wanted:
            return Keep()
        csync = dns.rdata.from_text("IN", "CSYNC", next(iter(wanted)))
        assert isinstance(csync, CSYNC)  # noqa: S101 - by its type
        types = types_in(csync)
        if len(wanted) > 1 or csync.flags & ~(IMMEDIATE | SOA_MINIMUM) or not types <= TYPES:
            return Refuse(
                "unsupported",
                "The zone has several CSYNC records, or a CSYNC record with unknown flags or with types "
                "other than NS, A and AAAA. Publish a single CSYNC record with these types.",
            )
        change = self._change(types)
        if isinstance(change, Keep):
            return change
        if not csync.flags & IMMEDIATE:
            return Refuse(
                "not_immediate",
                "The CSYNC record doesn't have the flag `immediate`, and this registry has no other way to "
                "confirm it. Publish it with flags 1 or 3, or change the nameservers by hand.",
            )
        if csync.flags & SOA_MINIMUM and is_newer(csync.serial, than=self.serial):
            return Refuse(
                "serial_too_low",
                f"The zone has the serial {self.serial}, and its CSYNC record requires at least "
                f"{csync.serial}. "
                "Wait until all nameservers have the newest version of the zone.",
            )
        if self._is_replayed(change, guard):
            return Refuse(
                "replayed",
                "The zone's serial is lower, or the changed records were signed earlier, than at the last "
                "change that was followed. Check that every nameserver has the newest version of the zone. "
                "After a change of the serial's format, change the nameservers by hand.",
            )
        return change

    def _is_replayed(self, change: Change, guard: ReplayGuard) -> bool:
        is_older = guard.signed_after is not None and change.signed_at < guard.signed_after
        return is_older or (guard.serial is not None and is_newer(guard.serial, than=self.serial))

    def _change(self, types: frozenset[str]) -> Keep | Change:
        """Return the change that gives the registry the zone's records of these types; `Keep` if nothing
        differs.
        """
        stored = self.target.delegation
        changed: list[Question] = []
        nameservers = stored.nameservers
        if "NS" in types:
            ns = (self.target.fqdn, "NS")
            named = {each.rstrip(".").lower() for each in self.zone[ns].records}
            if named != set(nameservers):
                changed.append(ns)
            kept = [each for each in nameservers if each in named]
            nameservers = (*kept, *sorted(named - set(kept)))
        glue = {}
        for host in nameservers:
            for family, version in _FAMILIES:
                if is_at_or_below(host, self.target.fqdn):
                    glue[host, version] = has = _glue_of_host(stored, host, version)
                    question = (host, family)
                    if family in types and question in self.zone:
                        glue[host, version] = self.zone[question].records
                        changed += [question] if glue[host, version] != has else []
        if not changed:
            return Keep()
        entries = tuple(
            GlueEntry(host, address, None) if version == 4 else GlueEntry(host, None, address)
            for (host, version), addresses in glue.items()
            for address in sorted(addresses)
        )
        signed_at = min(self.zone[each].at for each in changed)
        return Change(nameservers, entries, self.serial, signed_at)


def _glue_of_host(delegation: Delegation, host: str, version: int) -> frozenset[str]:
    addresses = glue_addresses(delegation).get(host, ())
    return frozenset(each for each in addresses if (":" in each) == (version == 6))


def _zone_keys(
    zone: str, ds_records: Sequence[DsRecord], message: dns.message.Message, now: datetime
) -> list[DNSKEY] | None:
    """Return the keys of a zone, at most `KEYS_MAX`; None if they don't validate under its DS records."""
    name = name_of(zone)
    keys = find_rrset(message, name, "DNSKEY")
    if keys is None:
        return None
    entries = matching_keys(name, keys, ds_records)
    return list(keys)[:KEYS_MAX] if valid_signatures(keys, _signatures(message, name), entries, now) else None


def _signed_answers(
    zone: str, messages: Mapping[Question, dns.message.Message], keys: Sequence[DNSKEY], now: datetime
) -> dict[Question, SignedRecords]:
    """Return the records that answer each question.

    Raises:
        NotAuthentic: a set of records, or the proof of its absence, has no valid signature by the zone's
            keys.
    """
    found = {}
    for question, message in messages.items():
        owner, rdtype = name_of(question[0]), question[1]
        rrset = find_rrset(message, owner, rdtype)
        proofs = [rrset] if rrset is not None else list(_denials(message, owner, rdtype))
        times = [at for each in proofs if (at := _signed_at(each, message, zone, keys, now)) is not None]
        if not times:
            raise NotAuthentic(question)
        found[question] = SignedRecords(frozenset(str(each) for each in rrset or ()), max(times))
    return found


def _signatures(message: dns.message.Message, owner: dns.name.Name) -> list[RRSIG]:
    # The signature of an expanded wildcard has fewer labels than the owner. Such records are ignored.
    return [
        rdata
        for section in (message.answer, message.authority)
        for each in section
        if each.name == owner and each.rdtype == dns.rdatatype.RRSIG
        for rdata in each
        if rdata.labels == len(owner.labels) - 1
    ]


def _signed_at(
    rrset: dns.rrset.RRset,
    message: dns.message.Message,
    zone: str,
    keys: Sequence[DNSKEY],
    now: datetime,
) -> datetime | None:
    valid = valid_signatures(rrset, _signatures(message, rrset.name), keys, now, name_of(zone))
    return datetime.fromtimestamp(max(each.inception for each in valid), UTC) if valid else None


def _denials(message: dns.message.Message, owner: dns.name.Name, rdtype: str) -> Iterator[dns.rrset.RRset]:
    """Yield the NSEC and NSEC3 records that deny records of this type at this name (RFC 4035, section 5.4;
    RFC 5155, section 8.5).
    """
    for each in denials_in(message):
        if _denies(each, owner) and all(types_in(one).isdisjoint((rdtype, "CNAME")) for one in each):
            yield each


def _denies(denial: dns.rrset.RRset, owner: dns.name.Name) -> bool:
    if denial.rdtype == dns.rdatatype.NSEC:
        return bool(denial.name == owner)
    record = denial[0]
    if record.algorithm != NSEC3Hash.SHA1 or record.iterations > ITERATIONS_MAX:
        return False
    hashed = dns.dnssec.nsec3_hash(owner, record.salt, record.iterations, NSEC3Hash.SHA1)
    return bool(text_of(denial.name).partition(".")[0] == hashed.lower())
