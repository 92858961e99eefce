"""A service whose parts each have a login of their own in PostgreSQL, with the privileges that `sublet grants` gives, no more."""

import asyncio
import itertools
import threading
from collections.abc import Callable, Iterator
from contextlib import AsyncExitStack, contextmanager
from dataclasses import dataclass
from functools import partial

import psycopg

from service import MovableClock, RunningService
from sublet.accounts.authenticate import authenticate
from sublet.config import Settings
from sublet.db import Database, open_database
from sublet.dns.nameserver import NameServer
from sublet.dns.types import ZoneView
from sublet.http.app import build_app
from sublet.http.endpoints import BASE_PATH, Context
from sublet.http.limits import Limits
from sublet.http.observe import Metrics
from sublet.http.serve import listen, serve_http
from sublet.migrations import upgrade
from sublet.platform_domains.name_servers import name_servers
from sublet.platform_domains.primaries import find_primary
from sublet.platform_domains.view_zone import view_zone
from sublet.registry.copy_store import list_copied, list_numbered, list_other
from sublet.registry.privileges import ROLES, grant_statements
from sublet.worker.clockwork import Clockwork
from sublet.worker.mailer import Mailer
from sublet.worker.publisher import Publisher
from sublet.worker.server_watch import ServerWatch
from sublet.worker.transport import LogTransport
from sublet.worker.zone_keeper import ZoneKeeper
from sublet.worker.zone_watch import ZoneWatch

_NUMBERS = itertools.count(1)


@dataclass(frozen=True, slots=True)
class Logins:
    """The addresses of one database for each role's login."""

    owner: str
    prefix: str

    def url(self, role: str) -> str:
        """Return the address with which a role's login comes."""
        return self.owner.replace("sublet@", f"{self.prefix}{role}_login@")

    def statements(self) -> list[str]:
        """Return what `sublet grants` prints, with this prefix."""
        tables = [each.name for each in (*list_copied(), *list_other())]
        return grant_statements(
            [*tables, "alembic_version"], [each.name for each in list_numbered()], self.prefix
        )


@contextmanager
def logins(owner_url: str) -> Iterator[Logins]:
    """Make the registry and the roles with a login each, and drop the roles afterwards; they are the whole server's."""
    made = Logins(owner_url, f"sublet{next(_NUMBERS)}_")
    upgrade(owner_url)
    names = [f"{made.prefix}{role.name}" for role in ROLES]
    with psycopg.connect(owner_url, autocommit=True) as connection:
        for _ in range(2):  # it may be run again
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
def split_service(found: Logins) -> Iterator[RunningService]:
    """Run API, worker and name server, each over its own login; the operator's commands come with the operator's."""
    settings = Settings(
        database_url=found.url("operator"),
        database_may_lose_writes="yes",
        http_listen="127.0.0.1:0",
        rate_limits="off",
        log_level="error",
    )
    service = RunningService(settings, MovableClock())
    ready, stops, failures = threading.Event(), list[Callable[[], object]](), list[BaseException]()

    async def serve() -> None:
        stop, loop = asyncio.Event(), asyncio.get_running_loop()
        stops.append(lambda: loop.call_soon_threadsafe(stop.set))
        async with AsyncExitStack() as stack:
            api, worker, dns = (
                open_database(found.url(role), service.clock, may_lose_writes=True)
                for role in ("api", "worker", "dns")
            )
            for database in (api, worker, dns):
                stack.push_async_callback(database.close)
            server = NameServer(partial(_read_zone, dns))
            service.dns = ("127.0.0.1", await server.start("127.0.0.1", 0))
            stack.push_async_callback(server.close)
            primary_of = partial(find_primary, settings.primaries)
            parts = (
                Publisher(worker, [service.dns], primary_of, batch_max={}, on_published=lambda _: None),
                Clockwork(worker, service.clock.monotonic),
                Mailer(worker, LogTransport()),
                ZoneWatch(worker),
                ServerWatch(worker, primary_of, service.clock.monotonic),
                ZoneKeeper(worker, found.url("worker"), primary_of),
            )
            tasks = [asyncio.create_task(part.run()) for part in parts]
            context = Context(
                settings,
                api,
                authenticate,
                Limits(settings),
                Metrics(),
                stopping=stop,
                readiness={"worker": lambda: not any(task.done() for task in tasks)},
                name_servers=lambda each: name_servers(each, [service.dns], ()),
            )
            listening = listen("127.0.0.1", 0)
            service.base_url = f"http://127.0.0.1:{listening.getsockname()[1]}{BASE_PATH}"
            ready.set()
            await serve_http(build_app(context, service.base_url), listening, stop)
            assert not any(task.done() for task in tasks), "a part of the worker ended"
            for task in tasks:
                task.cancel()
            await asyncio.gather(*tasks, return_exceptions=True)

    def run() -> None:
        try:
            asyncio.run(serve())
        except BaseException as error:  # noqa: BLE001 - told to the test below
            failures.append(error)
        finally:
            ready.set()

    thread = threading.Thread(target=run, name="split-service", daemon=True)
    thread.start()
    assert ready.wait(20), "the service did not start"
    if failures:
        raise failures[0]
    try:
        yield service
    finally:
        service.client.close()
        stops[0]()
        thread.join(20)
        if failures:
            raise failures[0]


async def _read_zone(database: Database, name: str) -> ZoneView | None:
    return await database.read(view_zone, name, ())
