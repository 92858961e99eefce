"""Changes of a name with glue while the service is down, and checks of the built-in name server's answers."""

from collections.abc import Callable

from sublet.audit import Actor
from sublet.db import Tx
from sublet.doctor.names import stream_all
from sublet.platform_domains.platform_domain import find_platform_domain
from sublet.primaries.store import count_waiting
from sublet.subdomains.delete import delete
from sublet.subdomains.lifecycle import desired_records
from sublet.subdomains.model import UpdateNameservers
from sublet.subdomains.update_nameservers import update_nameservers
from sublet.subdomains.view_zone import view_zones
from support.running_service import DS, Registrant, RunningService

ZONE = "example.test"
NAME = f"blog.{ZONE}"
HOST = f"ns1.{NAME}"
WITH_GLUE = {
    "fqdn": NAME,
    "nameservers": ["ns1.provider.example", HOST],
    "glue": [{"host": HOST, "ipv4": "8.8.4.4", "ipv6": "2001:4860:4860::8844"}],
    "ds_records": [DS],
}
Change = Callable[[RunningService, Registrant], object]
Triple = tuple[str, str, str]
NAMES_MAX = 100
"""The maximum number of names in a single query."""


def delete_it(service: RunningService, who: Registrant) -> None:
    """Delete the name in the database while the service is down."""
    service.write(lambda tx: delete(tx, Actor("user", user_id=who.id), NAME))


def change_it(service: RunningService, who: Registrant) -> None:
    """Change the name's nameserver in the database while the service is down, which removes glue and DS."""
    command = UpdateNameservers(nameservers=("ns9.elsewhere.example",), ds_records=())
    service.write(lambda tx: update_nameservers(tx, Actor("user", user_id=who.id), NAME, command))


def suspend_it(service: RunningService, _who: Registrant) -> None:
    """Suspend the name by the operator's command while the service is down."""
    service.operator("subdomain", "suspend", NAME, "--reason", "test")


def zone_is_right(service: RunningService) -> bool:
    """True if the built-in name server serves exactly the registry's delegations in example.test, and no
    change is pending.
    """

    def read(tx: Tx) -> bool:
        return not count_waiting(tx) and _standing(tx, ZONE) == _wanted(tx)

    return service.read(read)


def standing(service: RunningService, name: str = ZONE) -> set[Triple]:
    """Return the built-in name server's records of a name, by default of all names that were ever registered
    in example.test.
    """
    return service.read(lambda tx: _standing(tx, name))


def _standing(tx: Tx, name: str) -> set[Triple]:
    fqdns = [each.fqdn for each in stream_all(tx) if each.domain == ZONE] if name == ZONE else [name]
    found = set()
    for start in range(0, len(fqdns), NAMES_MAX):
        for view in view_zones(tx, fqdns[start : start + NAMES_MAX]).values():
            found |= {record for records in view.records.values() for record in records}
    return {(each.owner, each.type, each.rdata) for each in found if f".{each.owner}".endswith(f".{name}")}


def _wanted(tx: Tx) -> set[Triple]:
    ttl_seconds = find_platform_domain(tx, ZONE).delegation_ttl_seconds
    return {
        (record.owner, record.type, record.rdata)
        for each in stream_all(tx)
        if each.domain == ZONE
        for record in desired_records(each, ttl_seconds)
    }
