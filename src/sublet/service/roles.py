"""The roles of processes: `serve` runs everything; `api`, `worker` and `dns` run
apart over one PostgreSQL.
"""

import asyncio
import socket
import time
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager, closing

import structlog
from msgspec import Struct

from sublet.config import Settings, SettingsError
from sublet.db import Clock, Database, SqliteDatabase, open_database, sqlite_path, utc_now
from sublet.errors import FilesChanged
from sublet.http.app import StatusSources, build_status_app
from sublet.http.serve import serve_http
from sublet.metrics import Metrics
from sublet.schema_revision import refuse_unusable_database
from sublet.service.announced import Presence, announced
from sublet.service.api_part import api_socket, host_and_port, http_socket, origin_of, serve_api
from sublet.service.dns_part import built_in_addresses, name_server_running
from sublet.service.event_loop import run_in_background
from sublet.service.systemd import notify
from sublet.service.worker_part import mail_transport, worker_running
from sublet.sqlite_file import serve_lock
from sublet.subdomains.sweep.runner import Monotonic, monotonic_seconds

STATEMENT_SECONDS = 30
"""The timeout of one statement on PostgreSQL."""
FILES_CHANGED_SECONDS = 10.0
"""How long a service runs without writing after its SQLite files were changed, because the operator may put
the files back.
"""
FILES_CHECK_SECONDS = 0.5
QUICK_CHECK_SECONDS = 86_400.0
log = structlog.get_logger()


class Addresses(Struct, frozen=True):
    """The addresses of a running service: the base URL of the API, and host and port of the name server."""

    base_url: str
    dns: tuple[str, int]


async def run_service(
    settings: Settings,
    stop: asyncio.Event,
    *,
    clock: Clock = utc_now,
    monotonic: Monotonic = monotonic_seconds,
    on_ready: Callable[[Addresses], None] = lambda _addresses: None,
) -> None:
    """Run API, worker and name server until `stop` is set, then drain.

    Calls `on_ready` with the addresses once it answers.

    Raises:
        SettingsError: raised by `mail_transport`.
        Unavailable: the database can't be opened, isn't initialised, has another version, or is already
            served; or an address can't be used.
        FilesChanged: the files of the SQLite database were changed, and stayed so for
            `FILES_CHANGED_SECONDS`.
    """
    transport = mail_transport(settings)
    metrics = Metrics()
    async with (
        _open_and_announce(settings, "serve", clock) as (db, presence),
        _stopped_without_files(db, stop),
        name_server_running(settings, db, metrics) as dns,
    ):
        built_in = built_in_addresses(settings, dns)

        def ready(base_url: str) -> None:
            on_ready(Addresses(base_url, dns))
            log.info("serving", http=base_url, dns=host_and_port(*dns))
            notify("READY=1")

        with closing(api_socket(settings)) as listening:
            async with worker_running(
                settings, db, metrics, transport, monotonic, presence
            ) as is_worker_running:
                await serve_api(
                    settings,
                    db,
                    metrics,
                    listening,
                    stop,
                    built_in=built_in,
                    readiness={"worker": is_worker_running},
                    on_ready=ready,
                )
    log.info("stopped")


async def run_api_process(
    settings: Settings,
    listening: socket.socket,
    stop: asyncio.Event,
    *,
    metrics: Metrics,
    on_ready: Callable[[], None],
    clock: Clock = utc_now,
) -> None:
    """Run a child process of `sublet api` until `stop` is set; all children accept from the same socket.

    Raises:
        SettingsError: raised by `refuse_sqlite` or `built_in_addresses`.
        Unavailable: raised by `refuse_unusable_database`; or the database can't be opened.
    """
    refuse_sqlite(settings, "api")
    async with _open_and_announce(settings, "api", clock) as (db, _):
        await serve_api(
            settings,
            db,
            metrics,
            listening,
            stop,
            built_in=built_in_addresses(settings),
            readiness={},
            on_ready=lambda _base_url: on_ready(),
        )


async def run_worker(
    settings: Settings,
    stop: asyncio.Event,
    *,
    clock: Clock = utc_now,
    monotonic: Monotonic = monotonic_seconds,
) -> None:
    """Run only the worker until `stop` is set.

    Raises:
        SettingsError: raised by `refuse_sqlite` or `mail_transport`.
        Unavailable: raised by `refuse_unusable_database`; or the database can't be opened, or the address in
            `worker_status_listen` can't be used.
    """
    refuse_sqlite(settings, "worker")
    transport = mail_transport(settings)
    metrics = Metrics()
    readiness: dict[str, Callable[[], bool]] = {"worker": lambda: False}
    async with (
        _open_and_announce(settings, "worker", clock) as (db, presence),
        _status_served(
            settings, "worker_status_listen", StatusSources(db, metrics, stop, readiness)
        ) as status,
        worker_running(settings, db, metrics, transport, monotonic, presence) as is_worker_running,
    ):
        readiness["worker"] = is_worker_running
        log.info("serving", status=status)
        notify("READY=1")
        await stop.wait()
    log.info("stopped")


async def run_dns(settings: Settings, stop: asyncio.Event, *, clock: Clock = utc_now) -> None:
    """Run only a built-in name server until `stop` is set.

    Raises:
        SettingsError: raised by `refuse_sqlite`.
        Unavailable: raised by `refuse_unusable_database`; or the database can't be opened, or the address in
            `dns_listen` or `dns_status_listen` can't be used.
    """
    refuse_sqlite(settings, "dns")
    metrics = Metrics()
    async with (
        _open_and_announce(settings, "dns", clock) as (db, _),
        name_server_running(settings, db, metrics) as dns,
        _status_served(settings, "dns_status_listen", StatusSources(db, metrics, stop, {})) as status,
    ):
        log.info("serving", dns=host_and_port(*dns), status=status)
        notify("READY=1")
        await stop.wait()
    log.info("stopped")


def refuse_sqlite(settings: Settings, role: str) -> None:
    """Raise `SettingsError` if the database is SQLite, which only one process can use."""
    if sqlite_path(settings.database_url) is not None:
        raise SettingsError(
            f"database_url: `sublet {role}` needs PostgreSQL, because it shares the database with other "
            "processes. "
            "Run `sublet serve`, which is the whole registry, or give a postgresql:// address."
        )


@asynccontextmanager
async def _open_and_announce(
    settings: Settings, role: str, clock: Clock = utc_now
) -> AsyncIterator[tuple[Database, Presence]]:
    """Open the database and announce the process, until the block ends. Every serving process starts here."""
    refuse_unusable_database(settings.database_url)
    path = sqlite_path(settings.database_url)
    with serve_lock(path):
        db = open_database(
            settings.database_url,
            clock,
            is_serving=path is not None,
            may_lose_writes=settings.database_may_lose_writes,
            statement_seconds=STATEMENT_SECONDS,
        )
        try:
            async with announced(db, role, alone=path is not None) as presence:
                yield db, presence
        finally:
            await db.close()


@asynccontextmanager
async def _stopped_without_files(db: Database, stop: asyncio.Event) -> AsyncIterator[None]:
    """Check an SQLite database at the start and daily, and set `stop` if its files stay changed.

    Raises:
        FilesChanged: the files stayed changed for `FILES_CHANGED_SECONDS`.
    """
    if not isinstance(db, SqliteDatabase):
        yield
        return
    problems: list[str] = []
    async with run_in_background(_check_daily(db), _stop_without_files(db, stop, problems)):
        yield
    if problems:
        raise FilesChanged(problems[0])


async def _stop_without_files(db: Database, stop: asyncio.Event, problems: list[str]) -> None:
    changed_at: float | None = None
    logged = False
    while True:
        await asyncio.sleep(FILES_CHECK_SECONDS)
        problem = db.problem()
        if problem is not None and not problem.must_stop and not logged:
            logged = True
            log.critical("database_damaged", reason=problem.message)
        if problem is None or not problem.must_stop:
            changed_at = None
            continue
        changed_at = changed_at or time.monotonic()
        if time.monotonic() >= changed_at + FILES_CHANGED_SECONDS:
            problems.append(problem.message)
            stop.set()
            return


async def _check_daily(db: SqliteDatabase) -> None:
    while True:
        await db.quick_check()
        await asyncio.sleep(QUICK_CHECK_SECONDS)


@asynccontextmanager
async def _status_served(
    settings: Settings, setting: str, sources: StatusSources
) -> AsyncIterator[str | None]:
    """Serve the status pages of a process without an API on the address in a setting.

    Yield their origin, or None if the setting is empty.
    """
    address: str = getattr(settings, setting)
    if not address:
        yield None
        return
    listening, ended = http_socket(address, setting), asyncio.Event()
    origin = origin_of(listening)
    # No draining: a failed scrape does no harm, and a scraper never closes its connection.
    serving = asyncio.create_task(serve_http(build_status_app(sources), listening, ended, drain_seconds=0))
    try:
        yield origin
    finally:
        ended.set()
        await serving
