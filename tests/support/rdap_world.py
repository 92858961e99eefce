"""A service with names in all states that RDAP tells apart, and random requests about them."""

import json
import random
from contextlib import closing
from dataclasses import dataclass
from http.client import HTTPConnection
from typing import Any
from urllib.parse import quote, urlsplit

import httpx
from sqlalchemy import update

from sublet.db import Tx
from sublet.platform_domains.store import platform_domains
from sublet.subdomains.store import subdomains
from support.rdap_schemas import check_answer
from support.running_service import DS, Registrant, RunningService

SETTINGS: dict[str, Any] = {
    "site_name": "Example Names",
    "site_contact": "https://example.net/contact",
    "abuse_contact": "abuse@example.net",
    "site_terms_url": "https://example.net/terms",
    "site_imprint_url": "https://example.net/imprint",
}
PROVIDER = ["ns1.provider.example", "ns2.provider.example"]
LISTED = {
    "active.example.test": "active",
    "xn--bcher-kva.example.test": "active",
    "offered.example.test": "active",
    "expired.example.test": "active",
    "inactive.example.test": "inactive",
    "suspended.example.test": "server hold",
    "suspended-inactive.example.test": "server hold",
    "new.waiting.test": "pending create",
    "changed.waiting.test": "pending update",
    "failed.waiting.test": "pending update",
}
"""The names below a platform domain that everyone sees, and their status."""
ANSWERS = {200: "", 304: "", 400: "error", 404: "error", 414: "error", 431: "error", 501: "error"}


@dataclass(frozen=True, slots=True)
class RdapWorld:
    """The service, the owner of the names, and the names that LISTED doesn't have.

    `unlisted` are delegated names below platform domains that not everyone sees. `alike` are the names about
    which RDAP says nothing.
    """

    service: RunningService
    ada: Registrant
    unlisted: tuple[str, ...]
    alike: tuple[str, ...]

    @property
    def root(self) -> str:
        return self.service.origin

    def get(self, path: str, fields: dict[str, str] | None = None) -> httpx.Response:
        """Send a GET request for a path below /rdap/."""
        return self.service.client.get(f"{self.root}/rdap/{path}", headers=fields)

    def check_request(self, path: str, fields: dict[str, str]) -> int:
        """Send a request with any path and headers, octet by octet.

        Fail unless the answer has a form of RDAP. Return its status.
        """
        connection = HTTPConnection(urlsplit(self.root).netloc, timeout=60)
        with closing(connection):
            connection.request("GET", f"/rdap/{path}", headers=fields)
            answer = connection.getresponse()
            body = answer.read()
        assert answer.status in ANSWERS, (path, fields, answer.status)
        if answer.status != 304:
            assert answer.headers["content-type"] == "application/rdap+json", path
            found = json.loads(body)
            check_answer(ANSWERS[answer.status] or found.get("objectClassName", "help"), found)
        return answer.status


def build_world(service: RunningService, domain: str = "example.test") -> RdapWorld:
    """Register the names, and put them into their states.

    The primary of the domains that wait for it doesn't exist.
    """
    hidden, restricted, waiting, hidden_waiting = (
        *("hidden.test", "restricted.test"),
        *("waiting.test", "hidden-waiting.test"),
    )
    for each in (domain, hidden, restricted, waiting, hidden_waiting):
        service.add_domain(each, "--records", "on")
    service.write(lambda tx: _set_primary(tx, waiting, hidden_waiting))
    ada = service.add_user("rdap@example.org", free_quota="50")

    def register(*names: str, hosts: list[str] = PROVIDER, ipv4: str = "", **members: Any) -> None:
        for name in names:
            own = {"glue": [{"host": f"ns1.{name}", "ipv4": ipv4}]} if ipv4 else {}
            service.register(
                ada, name, **{"nameservers": [f"ns1.{name}", *hosts] if ipv4 else hosts, **own, **members}
            )

    host = f"ns1.active.{domain}"
    glue = [
        {"host": host, "ipv4": "8.8.4.4", "ipv6": "2001:4860:4860::8844"},
        {"host": host, "ipv4": "8.8.8.8"},
    ]
    register(f"active.{domain}", hosts=[host, PROVIDER[1]], glue=glue, ds_records=[DS])
    register(*(f"{label}.{domain}" for label in ("xn--bcher-kva", "offered", "expired")))
    register(*(f"{label}.{domain}" for label in ("inactive", "suspended-inactive")), hosts=[])
    register(
        *(f"{label}.{domain}" for label in ("suspended", "trashed", "suspended-trashed", "cooling")),
        ipv4="8.8.4.4",
    )
    register(*(f"{label}.{waiting}" for label in ("new", "changed", "failed")), f"new.{hidden_waiting}")
    for each in (domain, hidden, restricted):
        register(f"recorded.{each}", hosts=[], records=[{"name": "www", "type": "A", "values": ["8.8.4.4"]}])
    for each in (hidden, restricted):
        register(*(f"{label}.{each}" for label in ("delegated", "suspended", "trashed")))
        register(f"inactive.{each}", hosts=[])
        service.operator("subdomain", "suspend", f"suspended.{each}", "--reason", "test")
        service.call(ada, "DELETE", f"/subdomains/trashed.{each}")
    register(f"glue.{hidden}", ipv4="8.8.8.8")
    for label in ("suspended", "suspended-inactive", "suspended-trashed"):
        service.operator("subdomain", "suspend", f"{label}.{domain}", "--reason", "test")
    for label in ("trashed", "cooling"):
        service.call(ada, "DELETE", f"/subdomains/{label}.{domain}")
    for label in ("special", "blocked"):
        service.operator("label", "set", domain, label, "--class", label)
    for each, option in ((hidden, "--hidden"), (hidden_waiting, "--hidden"), (restricted, "--restricted")):
        service.operator("domain", "edit", each, option)
    service.write(lambda tx: _put_into_states(tx, domain, waiting))
    labels = ("trashed", "suspended-trashed", "cooling", "special", "blocked", "www", "ns1", "free")
    alike = [f"{label}.{domain}" for label in labels]
    for each in (hidden, restricted):
        alike += [f"{label}.{each}" for label in ("inactive", "suspended", "trashed", "free")]
    alike += [f"new.{hidden_waiting}", f"www.active.{domain}", "free.elsewhere.test", domain, hidden]
    unlisted = (f"delegated.{hidden}", f"delegated.{restricted}", f"glue.{hidden}")
    return RdapWorld(service, ada, unlisted, tuple(alike))


def _set_primary(tx: Tx, *domains: str) -> None:
    of = platform_domains.c.domain.in_(domains)
    tx.connection.execute(update(platform_domains).where(of).values(primary="absent"))


def _put_into_states(tx: Tx, domain: str, waiting: str) -> None:
    """Store the states that no single request leads to."""

    def put(fqdn: str, **values: Any) -> None:
        of = subdomains.c.fqdn == fqdn
        tx.connection.execute(update(subdomains).where(of).values(**values, due_at=None))

    put(f"expired.{domain}", expires_at=tx.now)
    put(f"suspended-trashed.{domain}", trashed_at=tx.now)
    put(f"cooling.{domain}", purged_at=tx.now)
    put(f"changed.{waiting}", generation=2, published_generation=1)
    put(f"failed.{waiting}", generation=2, published_generation=1, provision_error="refused")


_PIECES = (
    *("domain", "nameserver", "entity", "help", "domains", "nameservers", "entities", "ip", "autnum", ""),
    *("operator", "abuse", "registrant", "1", "*", ".", "..", "%2e%2e", "%00", "%ff", "%C3%BC"),
    *("%F0%9F%98%80", "xn--", "a" * 64, "a." * 130, "%25", "%2F", "\\", "'", '"', "<script>", "${x}"),
    *("192.0.2.1", "[::1]", "\u0661", "\ufb00", "\u200d"),
)
_FIELDS = (
    *("accept", "accept-encoding", "if-none-match", "if-match", "if-modified-since", "range", "origin"),
    *("authorization", "cookie", "x-forwarded-for", "x-request-id", "content-type", "sublet-organization"),
    *("access-control-request-method", "expect-ct", "te", "idempotency-key", "forwarded", "via"),
)
_VALUES = (
    *("", "*", "*/*", "text/html", "application/rdap+json;q=0", 'W/"0"', '"', "bytes=0-1", "null"),
    *("Bearer x", "__Host-sublet_session=x", "1", "-1", "\xff\xfe", "x" * 5000, "a,b,,c", "gzip;q=2"),
    "127.0.0.1",
)


def draw_request(random_: random.Random, world: RdapWorld) -> tuple[str, dict[str, str]]:
    """Return a random path below /rdap/, and random headers."""
    names = (*LISTED, *world.unlisted, *world.alike)
    kind = random_.random()
    if kind < 0.5:
        name = random_.choice(names)
        if random_.random() < 0.5:
            place = random_.randrange(len(name) + 1)
            name = name[:place] + random_.choice((*_PIECES, "ü", "A", "-", "_")) + name[place:]
        path = f"{random_.choice(('domain', 'domain', 'domain', 'nameserver', 'entity'))}/{quote(name, safe='%')}"  # noqa: E501
    elif kind < 0.9:
        path = "/".join(quote(random_.choice(_PIECES), safe="%") for _ in range(random_.randint(1, 4)))
    else:
        path = quote(bytes(random_.randrange(256) for _ in range(random_.randint(1, 60))), safe="")
    if random_.random() < 0.2:
        path += "?" + quote(random_.choice(_PIECES), safe="%=&")
    fields = {random_.choice(_FIELDS): random_.choice(_VALUES) for _ in range(random_.randint(0, 4))}
    return path, fields
