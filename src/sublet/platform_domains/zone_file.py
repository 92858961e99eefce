"""Parse the zone file of an existing zone (RFC 1035, section 5) into apex settings and records, to adopt the
zone.
"""

from typing import Any

import dns.exception
import dns.name
import dns.rdatatype
import dns.rdtypes.ANY.SOA
import dns.tokenizer
import dns.zone
import dns.zonefile
from msgspec import Struct

from sublet.dns.types import Record

_TTL_SECONDS_MAX = 2**31 - 1
"""RFC 2181, section 8. dnspython accepts twice as much."""
_SIGNER_TYPES = ("RRSIG", "NSEC", "NSEC3", "NSEC3PARAM", "DNSKEY")


class InvalidZoneFile(ValueError):  # noqa: N818 - named like the classes in sublet.errors
    """A zone file can't be adopted. `str()` is a message for the operator."""


class ZoneFile(Struct, frozen=True):
    """The content of a zone file: settings from the SOA and apex NS records, and all other records."""

    settings: dict[str, Any]
    records: tuple[Record, ...]


class _OutsideZone(Exception):  # noqa: N818 - the zone file's error, not ours
    pass


class _Reader(dns.zonefile.Reader):
    def _eat_line(self) -> None:
        raise _OutsideZone  # dnspython would skip the record


def parse_zone_file(text: str, domain: str) -> ZoneFile:
    """Return the settings and records of a zone file.

    `domain` is the zone's canonical name and the initial `$ORIGIN`.

    SOA and apex NS may be missing. Owners are in lower case without the final dot, rdata in presentation form
    with absolute names. Not checked: contradictions between records.

    Raises:
        InvalidZoneFile: not a zone file, no records, an `$INCLUDE`, a record outside the zone, an owner with
            an escaped character, a DNAME, a TTL above 2**31 - 1 seconds, or DNSSEC records (signatures would
            become invalid when the zone changes).
    """
    origin = dns.name.from_text(domain)
    zone = dns.zone.Zone(origin, relativize=False)
    try:
        with zone.writer(replacement=True) as transaction:
            tokenizer = dns.tokenizer.Tokenizer(text, "the zone file")
            _Reader(tokenizer, zone.rdclass, transaction, allow_include=False).read()
    except _OutsideZone:
        line = tokenizer.where()[1]
        raise InvalidZoneFile(
            f"Line {line} of the zone file has a record outside the zone {domain}. Remove the record."
        ) from None
    except (dns.exception.DNSException, ValueError, KeyError, UnicodeError) as error:
        reason = (str(error) or type(error).__name__).replace("the zone file:", "line ", 1).rstrip(".")
        raise InvalidZoneFile(f"The zone file can't be read: {reason}. Check the file.") from error
    records = tuple(sorted(_records(zone)))
    if not records:
        raise InvalidZoneFile(f"The zone file has no records. Give the file of the zone {domain}.")
    apex = {"SOA", "NS"}
    return ZoneFile(
        _settings(zone, origin),
        tuple(each for each in records if each.owner != domain or each.type not in apex),
    )


def _records(zone: dns.zone.Zone) -> list[Record]:
    records = []
    for name, rdataset in zone.iterate_rdatasets():
        type_name = dns.rdatatype.to_text(rdataset.rdtype)
        owner = name.to_text(omit_final_dot=True).lower()
        if type_name in _SIGNER_TYPES:
            raise InvalidZoneFile(
                f"The zone file has {type_name} records, which changes of the zone would make invalid. "
                "Give the unsigned zone."
            )
        if type_name == "DNAME":
            raise InvalidZoneFile(
                "The zone file has a DNAME record, which the built-in name server does not support. Remove "
                "the record."
            )
        if "\\" in owner:
            raise InvalidZoneFile(
                f"The zone file has the owner {owner}. Sublet does not support escaped characters. Remove "
                "the record."
            )
        if rdataset.ttl > _TTL_SECONDS_MAX:
            raise InvalidZoneFile(
                f"The zone file has the TTL {rdataset.ttl} at {owner}. Give at most {_TTL_SECONDS_MAX}."
            )
        records += [Record(owner, type_name, rdataset.ttl, rdata.to_text()) for rdata in rdataset]
    return records


def _settings(zone: dns.zone.Zone, origin: dns.name.Name) -> dict[str, Any]:
    settings: dict[str, Any] = {}
    soa_set = zone.get_rdataset(origin, "SOA")
    ns_set = zone.get_rdataset(origin, "NS")
    if soa_set:
        soa = next(iter(soa_set))
        assert isinstance(soa, dns.rdtypes.ANY.SOA.SOA)  # noqa: S101 - `soa_set` has only SOA records
        settings = {
            "soa_mname": _plain(soa.mname),
            "soa_rname": _plain(soa.rname),
            "serial": soa.serial or 1,
            "refresh_seconds": soa.refresh,
            "retry_seconds": soa.retry,
            "expire_seconds": soa.expire,
            "negative_ttl_seconds": soa.minimum,
            "apex_ttl_seconds": soa_set.ttl,
        }
    if ns_set:
        settings["apex_nameservers"] = tuple(sorted(_plain(each.target) for each in ns_set))
        settings["apex_ttl_seconds"] = ns_set.ttl
    return settings


def _plain(name: dns.name.Name) -> str:
    return name.to_text(omit_final_dot=True).lower()
