"""Check nameservers below other names: what `sublet doctor` asks of their index, and which names it says depend on others."""

from collections.abc import Iterator

from sublet.db import Tx
from sublet.dns.names import ancestors, owner_key
from sublet.invariants import Notice, Violation
from sublet.platform_domains import store as platform_domain_store
from sublet.platform_domains.model import PlatformDomain
from sublet.subdomains import delegation_store
from sublet.subdomains.check_life import Beside
from sublet.subdomains.delegation_store import host_keys
from sublet.subdomains.model import Subdomain
from sublet.subdomains.nameserver_notices import moment
from sublet.subdomains.nameservers import Place, place_of


class IndexedHosts:
    """The index of nameservers, walked beside the subdomains in the order of their ids."""

    def __init__(self, tx: Tx) -> None:
        self._hosts = Beside(delegation_store.stream_hosts(tx))

    def check(self, subdomain: Subdomain) -> Iterator[Violation]:
        """Yield what is wrong with the index of the next subdomain."""
        if set(self._hosts.take(subdomain.id)) != set(host_keys(subdomain.fqdn, subdomain.delegation)):
            sentence = (
                "the index has other nameservers than the name: a name that they lie below could be released"
            )
            yield Violation("nameservers_are_indexed", "subdomain", subdomain.id, sentence)


def list_notices(tx: Tx) -> list[Notice]:
    """Return the names that depend on a name in the trash, or on one that no user has registered."""
    platform_domains = {each.domain: each for each in platform_domain_store.list_platform_domains(tx)}
    return [
        notice
        for domain in sorted(platform_domains)
        for notice in _notices_below(tx, domain, platform_domains)
    ]


def _notices_below(tx: Tx, domain: str, platform_domains: dict[str, PlatformDomain]) -> Iterator[Notice]:
    place: Place | None = None
    last = ""
    for subdomain_id, fqdn, key in delegation_store.stream_hosts_below(tx, domain):
        host = owner_key(key)  # reversed once more
        above = next(each for each in (host, *ancestors(host)) if each in platform_domains)
        if above != domain:
            continue  # a deeper platform domain decides
        name = ".".join(host.split(".")[-domain.count(".") - 2 :])
        if name != last:  # hosts below one name follow each other, but for their own names
            last, place = name, place_of(tx, host, platform_domains[domain])
        if place is None:
            continue
        if place.is_in_trash:
            at = place.removed_at
            until = f"purged on {moment(at)}" if at is not None else "purged"
            sentence = f"{fqdn} uses {host}, which is removed when {name} is {until}"
            yield Notice("nameserver_in_trash", "subdomain", subdomain_id, sentence)
        elif not place.is_held:
            sentence = f"{fqdn} uses {host}, and {name} is not registered; other users can't register {name} meanwhile"
            yield Notice("nameserver_unregistered", "subdomain", subdomain_id, sentence)
