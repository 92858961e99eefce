"""The rules of dyndns2: what a request asks for, and what is stored (docs/changing-addresses.md)."""

from collections.abc import Iterable, Mapping, Sequence
from ipaddress import IPv4Address, IPv6Address, ip_address
from typing import Final

from msgspec import Struct

from sublet.audit import Actor
from sublet.db import Tx
from sublet.dns.names import NAME_OCTETS_MAX, InvalidName, ancestors
from sublet.dns.types import RecordSet
from sublet.errors import (
    AccountSuspended,
    Category,
    DelegationExists,
    RateLimited,
    RecordsNotAllowed,
    Refusal,
    SubdomainNotFound,
    SubdomainSuspended,
    TokenRestricted,
)
from sublet.subdomains.find import list_in_account, not_found, refuse_unless_allowed
from sublet.subdomains.model import Subdomain
from sublet.subdomains.records.rule import parse_owner
from sublet.subdomains.records.values import parse_labels

HOSTS_MAX: Final = 20
"""The maximum number of host names in a request."""
TTL_SECONDS: Final = 60
"""The TTL of a new RRset. An RRset that exists keeps its TTL."""
GOOD, NOCHG, BADAUTH, NOTFQDN, NOHOST, NUMHOST, ABUSE, DNSERR, FAILED = (
    "good",
    "nochg",
    "badauth",
    "notfqdn",
    "nohost",
    "numhost",
    "abuse",
    "dnserr",
    "911",
)
"""The words of the protocol."""
Addresses = Mapping[str, str]
"""The address of each type, A or AAAA, in canonical form."""


class InvalidUpdate(ValueError):  # noqa: N818 - named like InvalidName
    """The request is wrong as a whole; `str()` is the word of the answer."""


class Update(Struct, frozen=True):
    """The address of a host: its name, its owner there, and the addresses that it has to get.

    `stored` are the RRsets of the name.

    `refusal` is why it can't have them.
    """

    fqdn: str = ""
    owner: str = ""
    stored: Sequence[RecordSet] = ()
    refusal: Refusal | None = None

    def is_stored(self, addresses: Addresses) -> bool:
        """True if the host has these addresses already."""
        values = {each.type: each.values for each in self.stored}
        return all(values.get(type_name) == (address,) for type_name, address in addresses.items())

    def members(self, addresses: Addresses) -> list[dict[str, object]]:
        """Return the RRsets with these addresses, as `PATCH /subdomains/{fqdn}/records` takes them."""
        ttls = {each.type: each.ttl_seconds for each in self.stored}
        return [
            {"name": self.owner, "type": each, "values": [address], "ttl": ttls.get(each, TTL_SECONDS)}
            for each, address in addresses.items()
        ]


def parse_hosts(text: str) -> list[str]:
    """Return the host names of the parameter `hostname` in canonical form, in their order.

    Raises, in this order:
        InvalidUpdate: `numhost`: more than `HOSTS_MAX`; `notfqdn`: none, or one that is no name of at least
            two labels.
    """
    parts = text.split(",", HOSTS_MAX)
    if len(parts) > HOSTS_MAX:
        raise InvalidUpdate(NUMHOST)
    return [_parse_host(part.strip()) for part in parts]


def _parse_host(text: str) -> str:
    wildcard, rest = ("*.", text[2:]) if text.startswith("*.") else ("", text)
    try:
        labels = parse_labels(rest.removesuffix("."))
    except InvalidName:
        raise InvalidUpdate(NOTFQDN) from None
    host = wildcard + ".".join(labels)
    if len(labels) < 2 or len(host) > NAME_OCTETS_MAX:
        raise InvalidUpdate(NOTFQDN)
    return host


def parse_addresses(sent: Iterable[str], client: str) -> Addresses:
    """Return the addresses of the parameters `myip` and `myipv6`, or else the client's address.

    A parameter has commas between several addresses.

    Raises:
        InvalidUpdate: `dnserr`: a text that is no address, or two addresses of one type.
    """
    texts = [part.strip() for text in sent for part in text.split(",") if part.strip()]
    found: dict[str, str] = {}
    for text in texts or [client.partition("%")[0]]:
        try:
            address: IPv4Address | IPv6Address = ip_address(text)
        except ValueError:
            raise InvalidUpdate(DNSERR) from None
        if isinstance(address, IPv6Address) and address.ipv4_mapped is not None:
            address = address.ipv4_mapped
        if found.setdefault("A" if address.version == 4 else "AAAA", str(address)) != str(address):
            raise InvalidUpdate(DNSERR)
    return dict(sorted(found.items()))


def find_updates(tx: Tx, actor: Actor, hosts: Sequence[str]) -> list[Update]:
    """Return the update of each host. Its name is the longest name of the user at or above the host.

    The refusal of an update is that of `change_records`, as far as it doesn't depend on the addresses:
    SubdomainNotFound, SubdomainSuspended, TokenRestricted.
    """
    above = {host: (host, *ancestors(host)) for host in hosts}
    names = {name for each in above.values() for name in each}
    found = {each.fqdn: each for each in list_in_account(tx, actor, names)}
    return [_update(tx, actor, host, next(filter(None, map(found.get, above[host])), None)) for host in hosts]


def _update(tx: Tx, actor: Actor, host: str, subdomain: Subdomain | None) -> Update:
    if subdomain is None:
        return Update(refusal=not_found())
    owner = parse_owner(subdomain.fqdn, host)
    try:
        refuse_unless_allowed(subdomain, "update_nameservers", tx.now)
    except Refusal as refusal:
        return Update(refusal=refusal)
    if not actor.restrictions.allows_record(owner):
        return Update(refusal=TokenRestricted(f"This token may not change the records at {owner}."))
    stored = [each for each in subdomain.records if each.name == owner]
    return Update(subdomain.fqdn, owner, stored)


_HOST_REFUSALS = (SubdomainNotFound, DelegationExists, RecordsNotAllowed, TokenRestricted)


def word_of(refusal: Refusal, *, of_host: bool) -> str:
    """Return the word for a refusal of one host, or of the whole request."""
    if isinstance(refusal, (AccountSuspended, SubdomainSuspended, RateLimited)):
        return ABUSE
    if refusal.category in (Category.UNAVAILABLE, Category.FAULT):
        return FAILED
    if of_host and isinstance(refusal, _HOST_REFUSALS):
        return NOHOST
    return BADAUTH if refusal.category in (Category.UNAUTHENTICATED, Category.FORBIDDEN) else DNSERR
