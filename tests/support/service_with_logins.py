"""A service whose processes have separate PostgreSQL logins, with exactly the
privileges of `sublet grants`.
"""

import asyncio
import itertools
import threading
from collections.abc import Callable, Iterator
from contextlib import closing, contextmanager
from dataclasses import dataclass, replace

import httpx
import psycopg

from sublet.config import PrimarySettings, Settings
from sublet.http.serve import listen
from sublet.metrics import Metrics
from sublet.migrations import upgrade
from sublet.operations.operation import BASE_PATH
from sublet.registry.copy_store import list_copied, list_other, list_sequences
from sublet.registry.privileges import ROLES, grant_statements
from sublet.service.roles import run_api_process, run_dns, run_worker
from support.free_ports import free_address
from support.running_service import PUBLISH_WAIT_MS, MovableClock, RunningService
from support.waiting import wait_until

_NUMBERS = itertools.count(1)


@dataclass(frozen=True, slots=True)
class Logins:
    """The addresses of a database for the login of each role."""

    owner: str
    prefix: str

    def url(self, role: str) -> str:
        """Return the address of the database with a role's login."""
        return self.owner.replace("sublet@", f"{self.prefix}{role}_login@")

    def statements(self) -> list[str]:
        """Return the output of `sublet grants` for this prefix."""
        tables = [each.name for each in (*list_copied(), *list_other())]
        return grant_statements(
            [*tables, "alembic_version"], [each.name for each in list_sequences()], self.prefix
        )


@contextmanager
def logins(owner_url: str) -> Iterator[Logins]:
    """Create the registry and a login for each role.

    Drop the roles afterwards, because they belong to the whole server.
    """
    made = Logins(owner_url, f"sublet{next(_NUMBERS)}_")
    upgrade(owner_url)
    names = [f"{made.prefix}{role.name}" for role in ROLES]
    with psycopg.connect(owner_url, autocommit=True) as connection:
        for _ in range(2):  # a second run must change nothing
            connection.execute("\n".join(made.statements()).encode())
        for name in names:
            connection.execute(f"CREATE ROLE {name}_login LOGIN IN ROLE {name}".encode())
    try:
        yield made
    finally:
        with psycopg.connect(owner_url, autocommit=True) as connection:
            for name in [each for role in names for each in (f"{role}_login", role)]:
                connection.execute(f"DROP OWNED BY {name}".encode())
                connection.execute(f"DROP ROLE {name}".encode())


@contextmanager
def split_service(
    found: Logins, *primaries: PrimarySettings, **settings_of_api: str
) -> Iterator[RunningService]:
    """Run `sublet api`, `sublet worker` and `sublet dns`, each with its own login.

    Commands use the operator's login.

    All processes must be ready before the block, and must have unregistered after it.
    """
    dns, statuses = free_address(), [free_address() for _ in range(2)]
    settings = Settings(
        database_url=found.url("operator"),
        database_may_lose_writes=True,
        dns_listen=f"{dns[0]}:{dns[1]}",
        worker_status_listen=f"{statuses[0][0]}:{statuses[0][1]}",
        dns_status_listen=f"{statuses[1][0]}:{statuses[1][1]}",
        publish_wait_ms=PUBLISH_WAIT_MS,
        primaries=primaries,
        rate_limits=False,
        signup="open",
        health_checks=True,
        log_level="error",
    )
    api, worker, name_server = (
        replace(settings, database_url=found.url(role)) for role in ("api", "worker", "dns")
    )
    api = replace(api, **settings_of_api)  # type: ignore[arg-type] # texts only
    service = RunningService(settings, MovableClock(), dns=dns)
    clock = service.clock
    ready, stops, failures = threading.Event(), list[Callable[[], object]](), list[BaseException]()

    async def serve() -> None:
        stop, loop = asyncio.Event(), asyncio.get_running_loop()
        stops.append(lambda: loop.call_soon_threadsafe(stop.set))
        with closing(listen("127.0.0.1", 0)) as listening:
            service.base_url = f"http://127.0.0.1:{listening.getsockname()[1]}{BASE_PATH}"
            async with asyncio.TaskGroup() as tasks:
                tasks.create_task(run_dns(name_server, stop, clock=clock))
                tasks.create_task(run_worker(worker, stop, clock=clock, monotonic=clock.monotonic))
                tasks.create_task(
                    run_api_process(api, listening, stop, metrics=Metrics(), on_ready=ready.set, clock=clock)
                )

    def run() -> None:
        try:
            asyncio.run(serve())
        except BaseException as error:  # noqa: BLE001 - raised in the test below
            failures.append(error)
        finally:
            ready.set()

    def is_ready() -> bool:
        if failures:
            raise failures[0]
        origins = [
            service.base_url.removesuffix(BASE_PATH),
            *(f"http://{host}:{port}" for host, port in statuses),
        ]
        try:
            return all(service.client.get(f"{each}/readyz").status_code == 200 for each in origins)
        except httpx.TransportError:
            return False

    thread = threading.Thread(target=run, name="split-service", daemon=True)
    thread.start()
    try:
        assert ready.wait(60), "the service did not start"
        wait_until(is_ready)
        yield service
    finally:
        service.client.close()
        stops[0]()
        thread.join(60)
        if failures:
            raise failures[0]
    with psycopg.connect(found.owner) as connection:
        left = connection.execute("SELECT role FROM processes").fetchall()
    assert left == [], "a process couldn't unregister"
