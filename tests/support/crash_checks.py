"""What must hold when the process is killed between the zone and its record: a check for the real service and a broken twin."""

import signal
from collections.abc import Callable
from pathlib import Path

import httpx
import pytest

from sublet.audit import Actor
from sublet.db import Tx
from sublet.dns.types import Record
from sublet.platform_domains import zone_store
from sublet.platform_domains.find import find_platform_domain
from sublet.primaries.check_zone import ZoneCheck, check_built_in_zone
from sublet.subdomains.delete import delete
from sublet.subdomains.model import UpdateNameservers
from sublet.subdomains.update_nameservers import update_nameservers
from support.running_service import DS, Registrant, RunningService
from support.serve_process import serve_process, wait_until

NAME = "blog.example.test"
HOST = f"ns1.{NAME}"
WITH_GLUE = {
    "fqdn": NAME,
    "nameservers": ["ns1.provider.example", HOST],
    "glue": [{"host": HOST, "ipv4": "8.8.4.4", "ipv6": "2001:4860:4860::8844"}],
    "ds_records": [DS],
}
Change = Callable[[RunningService, Registrant], object]


def delete_it(service: RunningService, who: Registrant) -> None:
    """Delete the name in the database, while nothing serves."""
    service.write(lambda tx: delete(tx, Actor("user", user_id=who.id), NAME))


def change_it(service: RunningService, who: Registrant) -> None:
    """Give the name another nameserver in the database, while nothing serves: glue and DS go."""
    command = UpdateNameservers(nameservers=("ns9.elsewhere.example",), ds_records=())
    service.write(lambda tx: update_nameservers(tx, Actor("user", user_id=who.id), NAME, command))


def suspend_it(service: RunningService, _who: Registrant) -> None:
    """Suspend the name with the operator's command line, while nothing serves."""
    service.operator("subdomain", "suspend", NAME, "--reason", "test")


def zone_is_right(service: RunningService) -> bool:
    """Return True if `sublet zone check` finds no difference and no change waits."""
    found = check(service)
    return found.differences.ours_is_right and not found.waiting


def check(service: RunningService) -> ZoneCheck:
    """Ask what `sublet zone check example.test` asks."""
    return service.read(lambda tx: check_built_in_zone(tx, find_platform_domain(tx, "example.test")))


def standing(service: RunningService, name: str = "example.test") -> set[tuple[str, str, str]]:
    """Return the records of the zone at or below a name, by default of the whole zone: owner, type, rdata."""

    def read(tx: Tx) -> list[Record]:
        return zone_store.list_zone_records(tx, find_platform_domain(tx, "example.test").id)

    found = service.read(read)
    return {(each.owner, each.type, each.rdata) for each in found if f".{each.owner}".endswith(f".{name}")}


def check_crash_leaves_nothing_old(
    database_url: str,
    folder: Path,
    change: Change,
    expected: set[str],
    *,
    broken: str = "",
    seconds: float = 10,
) -> None:
    """Killed after the zone was changed and before that was recorded, then changed: no record of before stays served."""
    with serve_process(database_url, folder, broken=broken) as serving:
        service = serving.service
        service.add_domain("example.test")
        ada = service.add_user()
        serving.start("published")
        with pytest.raises(httpx.TransportError):
            service.call(ada, "POST", "/subdomains", WITH_GLUE)
        assert serving.wait() == -signal.SIGKILL
        change(service, ada)
        serving.start()
        wait_until(lambda: zone_is_right(service), seconds)
        assert service.delegation(NAME) == expected
        glue = service.dig(HOST, "A", "+noall", "+answer", "+additional")
        assert "8.8.4.4" not in glue
        assert service.dig(NAME, "DS", "+short") == ""
        assert "8.8.4.4" not in service.dig(NAME, "NS")
        assert standing(service, NAME) == {(NAME, "NS", f"{host}.") for host in expected}
        assert service.doctor() == []
        assert serving.stop() == 0
