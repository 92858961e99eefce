"""The objects in RDAP answers (RFC 9083, RFC 9537), and how they are made of names and settings."""

import hashlib
from collections.abc import Sequence
from datetime import datetime
from functools import lru_cache
from http import HTTPStatus
from typing import Any, NamedTuple, TypeVar

import msgspec
from msgspec import Raw, Struct

from sublet.config import Settings, abuse_contact, contact_url
from sublet.dns.names import to_unicode
from sublet.dns.types import DsRecord, GlueEntry
from sublet.rdap.model import PublicName
from sublet.structs import replace

MEDIA_TYPE = "application/rdap+json"
PREFIX = "/rdap"
OPERATOR, ABUSE = "operator", "abuse"
"""The handles of the entities."""
CONFORMANCE = ("rdap_level_0", "redacted")
_EPP_URL = "https://icann.org/epp"


class Link(Struct, omit_defaults=True):
    """A link (RFC 9083, section 4.2). `value` is the URL of the answer that has the link."""

    value: str
    rel: str
    href: str
    type: str = ""


class Notice(Struct, omit_defaults=True):
    """A notice about the service (RFC 9083, section 4.3)."""

    title: str
    description: Sequence[str]
    links: Sequence[Link] = ()


class Event(Struct, rename="camel"):
    """An event of an object (RFC 9083, section 4.5)."""

    event_action: str
    event_date: datetime


class RdapObject(Struct, rename="camel", omit_defaults=True, kw_only=True):
    """The members that several objects have. Members without a value are left out.

    Only the topmost object of an answer has `rdap_conformance`, `notices` and `lang` (`as_answer`). `notices`
    and `entities` are JSON.
    """

    rdap_conformance: Sequence[str] = ()
    handle: str = ""
    links: Sequence[Link] = ()
    events: Sequence[Event] = ()
    entities: Raw | None = None
    notices: Raw | None = None
    lang: str = ""


RdapObjectT = TypeVar("RdapObjectT", bound=RdapObject)


class Entity(RdapObject, tag_field="objectClassName", tag="entity", kw_only=True):
    """The operator, or the contact for reports of abuse (RFC 9083, section 5.1).

    Its card is a jCard (RFC 7095).
    """

    vcard_array: Sequence[Any]
    roles: Sequence[str]


class Addresses(Struct, omit_defaults=True):
    """The addresses of a nameserver in the parent zone: its glue."""

    v4: Sequence[str] = ()
    v6: Sequence[str] = ()


class Nameserver(RdapObject, tag_field="objectClassName", tag="nameserver", kw_only=True):
    """A nameserver (RFC 9083, section 5.2).

    Only a nameserver with glue has addresses, and a link to an answer of its own.
    """

    ldh_name: str
    unicode_name: str | None = None
    ip_addresses: Addresses | None = None


class DsData(Struct, rename="camel"):
    """A DS record (RFC 9083, section 5.3)."""

    key_tag: int
    algorithm: int
    digest: str
    digest_type: int


class SecureDns(Struct, rename="camel", omit_defaults=True):
    """Whether a delegation is signed, and its DS records."""

    delegation_signed: bool
    ds_data: Sequence[DsData] = ()


class Domain(RdapObject, tag_field="objectClassName", tag="domain", kw_only=True):
    """A name (RFC 9083, section 5.3). `redacted` says that its registrant was left out (RFC 9537)."""

    ldh_name: str
    unicode_name: str | None = None
    status: Sequence[str]
    nameservers: Sequence[Nameserver] = ()
    secure_dns: SecureDns = msgspec.field(name="secureDNS")
    redacted: Sequence[Any]


class ErrorObject(RdapObject, kw_only=True):
    """The body of each error (RFC 9083, section 6)."""

    error_code: int
    title: str
    description: Sequence[str]


class Service(NamedTuple):
    """What all answers of a service share: its URL, the notices and the operator as JSON with their digest,
    and the entities by handle.
    """

    url: str
    digest: bytes
    notices: Raw
    operator: Raw
    entities: dict[str, Entity]


def error_object(status: int, message: str) -> ErrorObject:
    """Return the body of an error with an HTTP status."""
    title = HTTPStatus(status).phrase
    return ErrorObject(
        rdap_conformance=CONFORMANCE, error_code=status, title=title, description=(message,), lang="en"
    )


@lru_cache(8)
def describe_service(settings: Settings, public_url: str) -> Service:
    """Return what all answers share.

    The operator has `site_contact`, and the entity `abuse` in it if there is a contact.
    """
    url, contact = public_url + PREFIX, abuse_contact(settings)
    operator = _entity(url, OPERATOR, "registrar", settings.site_name, settings.site_contact)
    entities = {OPERATOR: operator}
    if settings.site_imprint_url:
        operator.vcard_array[1].append(["url", {}, "uri", settings.site_imprint_url])
    if contact:
        entities[ABUSE] = _entity(url, ABUSE, ABUSE, f"Abuse contact of {settings.site_name}", contact)
        operator.entities = _raw([entities[ABUSE]])
    notices, shown = _raw(_notices(settings, f"{url}/help", contact)), _raw([operator])
    digest = hashlib.sha256(bytes(notices) + bytes(shown)).digest()
    return Service(url, digest, notices, shown, entities)


def _entity(url: str, handle: str, role: str, name: str, contact: str) -> Entity:
    card: list[Any] = [["version", {}, "text", "4.0"], ["fn", {}, "text", name], ["kind", {}, "text", "org"]]
    if "://" in contact:
        card.append(["contact-uri", {}, "uri", contact])  # RFC 8605, section 2.1
    elif contact:
        card.append(["email", {}, "text", contact])
    links = (_self_link(url, "entity", handle),)
    return Entity(handle=handle, vcard_array=["vcard", card], roles=(role,), links=links)


def _notices(settings: Settings, url: str, contact: str) -> list[Notice]:
    terms = (
        "Use these answers to find out whom to write to about a name. Queries are limited by address and "
        "network."
    )
    privacy = "Nothing about registrants is published."
    report = "The operator has published no contact."
    if contact:
        report = f"Write to {contact}. Give the name, what you saw, and when."
    found = (
        ("Terms of Use", terms, "terms-of-service", settings.site_terms_url),
        ("Privacy", privacy, "", ""),
        ("Report Abuse", report, "related", contact_url(contact)),
        ("Status Codes", f"{_EPP_URL} explains the status codes.", "glossary", _EPP_URL),
    )
    return [
        Notice(title, (text,), (Link(url, rel, href),) if href else ()) for title, text, rel, href in found
    ]


def as_answer(service: Service, found: RdapObjectT) -> tuple[RdapObjectT, str]:
    """Return an object as the topmost one of an answer, and its entity tag.

    A name gets the operator as its entity.
    """
    digest = hashlib.sha256(service.digest + msgspec.json.encode(found)).hexdigest()
    entities = service.operator if isinstance(found, Domain) else found.entities
    answer = replace(
        found, rdap_conformance=CONFORMANCE, entities=entities, notices=service.notices, lang="en"
    )
    return answer, f'W/"{digest[:16]}"'


def domain(service: Service, name: PublicName) -> Domain:
    """Return the object of a name. Of a name that not everyone sees, it has only what the DNS has."""
    served = name.served
    return Domain(
        handle=name.fqdn,
        ldh_name=name.fqdn,
        unicode_name=_unicode_name(name.fqdn),
        status=(name.status,),
        events=_events(name),
        nameservers=tuple(nameserver(service, host, served.glue) for host in served.nameservers),
        secure_dns=SecureDns(bool(served.ds_records), tuple(_ds_data(each) for each in served.ds_records)),
        links=(_self_link(service.url, "domain", name.fqdn),),
        redacted=(_NO_REGISTRANT,),
    )


def nameserver(service: Service, host: str, glue: Sequence[GlueEntry]) -> Nameserver:
    """Return the object of a nameserver, with its addresses in `glue`."""
    found = Nameserver(handle=host, ldh_name=host, unicode_name=_unicode_name(host))
    entries = [each for each in glue if each.host == host]
    if entries:
        found.ip_addresses = Addresses(
            tuple(each.ipv4 for each in entries if each.ipv4 is not None),
            tuple(each.ipv6 for each in entries if each.ipv6 is not None),
        )
        found.links = (_self_link(service.url, "nameserver", host),)
    return found


_NO_REGISTRANT = {
    "name": {"description": "Registrant"},
    "prePath": "$.entities[?(@.roles[0]=='registrant')]",
    "pathLang": "jsonpath",
    "method": "removal",
    "reason": {"description": "Nothing about registrants is published."},
}


def _events(name: PublicName) -> tuple[Event, ...]:
    if not name.is_listed:
        return ()
    return (
        Event("registration", name.registered_at),
        Event("expiration", name.expires_at),
        Event("last changed", name.last_changed_at),
    )


def _ds_data(record: DsRecord) -> DsData:
    return DsData(record.key_tag, record.algorithm, record.digest, record.digest_type)


def _unicode_name(name: str) -> str | None:
    return to_unicode(name) if "xn--" in name else None


def _self_link(url: str, kind: str, handle: str) -> Link:
    address = f"{url}/{kind}/{handle}"
    return Link(address, "self", address, MEDIA_TYPE)


def _raw(value: object) -> Raw:
    return Raw(msgspec.json.encode(value))
