"""A running service with a zone on Knot, BIND, PowerDNS, or the built-in name server."""

from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

from sublet.config import PrimarySettings
from sublet.dns.types import Record, Secondary
from sublet.platform_domains.platform_domain import find_platform_domain
from sublet.platform_domains.zone_store import ZoneState, find_zone_state
from sublet.primaries import drift_repair, primary_zone, publisher_transactions
from sublet.primaries.update import fence_name
from support.crash_checks import standing
from support.name_servers import NameServerProcess, primary
from support.running_service import Registrant, RunningService, registry_address, running_service
from support.serve_process import ServeProcess, serve_process
from support.waiting import wait_until

BUILT_IN = "built_in"
ZONE = "example.test"


@dataclass(slots=True)
class ServiceOn:
    """A service and the primary of its zone, None for the built-in name server."""

    service: RunningService
    server: NameServerProcess | None
    apex: frozenset[Record]
    """The initial records of the zone."""

    @property
    def primary(self) -> NameServerProcess:
        """The primary. Fails if the zone is on the built-in name server."""
        assert self.server is not None
        return self.server

    def records(self) -> set[tuple[str, str, str]]:
        """Return the zone's records (owner, type, rdata) without the initial records and the fence.

        A primary's records come by transfer; those of the built-in name server from queries for all names
        that were ever registered.
        """
        if self.server is None:
            return standing(self.service)
        ours = self.server.records() - self.apex
        return {(each.owner, each.type, each.rdata) for each in ours if each.owner != fence_name(ZONE)}

    def state(self) -> ZoneState:
        """Return the stored state of the zone."""
        return self.service.read(lambda tx: find_zone_state(tx, find_platform_domain(tx, ZONE).id))

    def shown(self, who: Registrant | str, fqdn: str) -> dict[str, Any]:
        """Return a name as the API shows it."""
        return dict(self.service.call(who, "GET", f"/subdomains/{fqdn}").json()["subdomain"])

    def wait_until_active(self, who: Registrant | str, fqdn: str) -> None:
        wait_until(lambda: self.shown(who, fqdn)["status"] == "active")


def settings_file(folder: Path, settings: Sequence[PrimarySettings]) -> Path:
    """Write a settings file with these primaries, for the operator's commands."""
    lines = []
    for each in settings:
        lines += [
            f"[primaries.{each.name}]",
            f'address = "{each.address}"',
            f"port = {each.port}",
            f'key_name = "{each.key_name}"',
            f'key_algorithm = "{each.key_algorithm}"',
            f'key_file = "{each.key_file}"',
        ]
    path = folder / "sublet.toml"
    path.write_text("\n".join(lines) + "\n", encoding="utf-8")
    return path


def primary_settings(folder: Path, server: NameServerProcess, name: str = "main") -> PrimarySettings:
    """Return the settings of a primary, whose key is in a file."""
    key_file = folder / f"{name}.key"
    key_file.write_text(server.key.secret.reveal() + "\n", encoding="ascii")
    return PrimarySettings(
        name=name,
        address=server.address,
        port=server.port,
        key_name=server.key.name,
        key_algorithm=server.key.algorithm,
        key_file=str(key_file),
    )


def check_often(monkeypatch: pytest.MonkeyPatch) -> None:
    """Let services query serials four times a second, and check zones as often as possible."""
    monkeypatch.setattr(drift_repair, "POLL_SECONDS", 0.25)
    monkeypatch.setattr(drift_repair, "PAUSE_MIN_SECONDS", 0.5)
    monkeypatch.setattr(drift_repair, "PAUSE_FACTOR", 0.0)


@contextmanager
def service_on(
    kind: str,
    folder: Path,
    *,
    database_url: str | None = None,
    secondaries: Sequence[Secondary] = (),
    before: Callable[[PrimarySettings], PrimarySettings] = lambda section: section,
    records: bool = False,
    **settings: Any,
) -> Iterator[ServiceOn]:
    """Run a server of this kind, and a service that publishes `example.test` on it, with `records` also names
    with records.

    `before` may put a proxy in front of the server: it gets the settings of the primary and returns changed
    ones.
    """
    url = database_url or registry_address(folder)
    allowed = ("--records", "on") if records else ()
    chosen = {"free_quota": 100_000, **settings}
    if kind == BUILT_IN:
        with running_service(url, **chosen) as service:
            service.add_domain(ZONE, *allowed)
            yield ServiceOn(service, None, frozenset())
        return
    with (
        pytest.MonkeyPatch.context() as patch,
        primary(kind, folder / kind, ZONE, secondaries=secondaries, records=records) as server,
    ):
        patch.setattr(publisher_transactions, "ZONE_BACK_OFF_MAX_SECONDS", 1.0)
        patch.setattr(primary_zone, "TIMEOUT_SECONDS", 60.0)  # a busy machine may need more than five
        first = frozenset(server.records())
        section = before(primary_settings(folder, server))
        with running_service(url, primaries=(section,), **chosen) as service:
            service.environment["SUBLET_CONFIG"] = str(settings_file(folder, [section]))
            options = [
                word
                for each in secondaries
                for word in ("--secondary", f"{each.host}={each.address}:{each.port}")
            ]
            service.add_domain(ZONE, "--primary", section.name, *options, *allowed)
            yield ServiceOn(service, server, first)


@contextmanager
def serve_process_on(
    kind: str, folder: Path, *, database_url: str | None = None, broken: str = "", records: bool = False
) -> Iterator[tuple[ServiceOn, ServeProcess]]:
    """Run a server of this kind, yield a process that publishes `example.test` on it and isn't started, and
    end both after the test.

    With `records` names may have records.
    """
    url = database_url or registry_address(folder)
    with (
        primary(kind, folder / kind, ZONE, records=records) as server,
        serve_process(url, folder, broken=broken, free_quota=100_000) as serving,
    ):
        first = frozenset(server.records())
        section = primary_settings(folder, server)
        path = str(settings_file(folder, [section]))
        serving.environment["SUBLET_CONFIG"] = serving.service.environment["SUBLET_CONFIG"] = path
        allowed = ("--records", "on") if records else ()
        serving.service.add_domain(ZONE, "--primary", section.name, *allowed)
        yield ServiceOn(serving.service, server, first), serving
