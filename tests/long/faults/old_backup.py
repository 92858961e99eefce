"""A registry is restored from an old backup, and the zone on its primary is newer.

Names registered after the backup are listed as foreign, are not deleted, and can't be registered. Names of
the backup are published again. SQLite uses `sublet backup` and `restore`, PostgreSQL `pg_dump` and
`pg_restore`.
"""

import subprocess
import time
from contextlib import suppress

import psycopg

from long.scenario import FAULTS, POSTGRESQL, SQLITE, Outcome, Scenario, Trial, registry_on
from sublet.platform_domains.platform_domain import find_platform_domain
from sublet.primaries.drift_repair import PAUSE_MAX_SECONDS
from sublet.processes.leases import check_lease
from support.leases import run_out
from support.name_servers import KINDS
from support.postgresql import find_postgresql
from support.running_service import Registrant, RunningService
from support.service_on_primary import ZONE, ServiceOn, serve_process_on
from support.waiting import wait_until

BEFORE, SINCE = "ns1.provider.example.", "ns2.provider.example."
CHECKED_SECONDS = PAUSE_MAX_SECONDS + 60
"""How long until the zone check has seen the last change; checks, and the pauses between them, are long on a
slow machine.
"""
BACK_SECONDS = 60.0
"""How long until the zone has the names of the backup again."""


def run(trial: Trial) -> Outcome:
    """Register `count` names before and `count` names after the backup, restore it, and compare the zone."""
    before = {f"before{number}.{ZONE}": BEFORE for number in range(trial.count)}
    later = {f"later{number}.{ZONE}": SINCE for number in range(trial.count)}
    changed, deleted = f"changed.{ZONE}", f"deleted.{ZONE}"
    of_backup = {**before, changed: BEFORE, deleted: BEFORE}
    with (
        registry_on(trial) as url,
        serve_process_on(trial.server, trial.folder, database_url=url, broken=trial.broken) as (on, serving),
    ):
        service = on.service
        service.environment["SUBLET_FREE_QUOTA"] = str(
            service.settings.free_quota
        )  # else the backup's check finds too many
        ada = service.add_user()
        serving.start()
        _register(service, ada, of_backup)
        wait_until(lambda: _delegations(on) == of_backup)
        _back_up(service, trial)
        sent = {"nameservers": [SINCE.rstrip(".")]}
        assert service.call(ada, "PUT", f"/subdomains/{changed}/nameservers", sent).status_code == 200
        assert service.call(ada, "DELETE", f"/subdomains/{deleted}").status_code == 200
        _register(service, ada, later)
        wait_until(lambda: _delegations(on) == {**before, changed: SINCE, **later})
        assert serving.stop() == 0
        _restore(service, trial)
        began = time.monotonic()
        serving.start()
        wait_until(lambda: _delegations(on) == {**of_backup, **later}, BACK_SECONDS)
        back_seconds = time.monotonic() - began
        listed = {each["owner"] for each in service.operator("zone", "check", ZONE)["foreign"]}
        assert listed == set(later), listed
        for name in later:
            refused = service.call(ada, "POST", "/subdomains", {"fqdn": name})
            assert (refused.status_code, refused.json()["error"]) == (409, "subdomain_unavailable")
        service.register(ada, f"anew.{ZONE}", nameservers=[SINCE.rstrip(".")])
        wait_until(lambda: f"anew.{ZONE}" in _delegations(on))
        with suppress(AssertionError):  # the violations tell more
            wait_until(lambda: service.doctor() == [], CHECKED_SECONDS)
        assert service.doctor() == []
        assert _delegations(on) == {**of_backup, **later, f"anew.{ZONE}": SINCE}
        assert serving.stop() == 0
    return Outcome(
        f"{len(later)} newer names listed as foreign, none deleted, none to be registered; "
        f"{len(of_backup)} names as in the backup again after {back_seconds:.1f} s",
    )


def _register(service: RunningService, who: Registrant, names: dict[str, str]) -> None:
    for name, nameserver in names.items():
        service.register(who, name, nameservers=[nameserver.rstrip(".")])


def _delegations(on: ServiceOn) -> dict[str, str]:
    return {owner: rdata for owner, _, rdata in on.records()}


def _back_up(service: RunningService, trial: Trial) -> None:
    file = str(trial.folder / "backup")
    if trial.database == SQLITE:
        service.operator("backup", file)
    else:
        _run("pg_dump", "--format=custom", f"--file={file}", service.settings.database_url)


def _restore(service: RunningService, trial: Trial) -> None:
    """Replace the registry with the backup, as docs/operating describes; no service runs."""
    file = str(trial.folder / "backup")
    url = service.settings.database_url
    if trial.database == SQLITE:
        service.operator("restore", file, "--force")
        return
    server, _, name = url.rpartition("/")
    with psycopg.connect(f"{server}/postgres", autocommit=True) as connection:
        connection.execute(f"DROP DATABASE {name}".encode())
        connection.execute(f"CREATE DATABASE {name}".encode())
    _run("pg_restore", "--exit-on-error", "--single-transaction", f"--dbname={url}", file)
    # A dump has the leases that were held while it was taken. This one is seconds old; an old one's have run
    # out.
    service.write(lambda tx: run_out(tx, check_lease(find_platform_domain(tx, ZONE).id)))


def _run(program: str, *words: str) -> None:
    done = subprocess.run([find_postgresql(program), *words], capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr


OLD_BACKUP = Scenario(
    "old-backup",
    "A registry is restored from an old backup while the zone on a primary is newer. No record is lost. "
    "Counted are newer names.",
    run,
    {FAULTS: {SQLITE: 5, POSTGRESQL: 5}},
    KINDS,
)
