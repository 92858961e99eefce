"""The one process that is everything: API, worker, built-in name server, over one database."""

import asyncio
from collections.abc import AsyncIterator, Callable, Coroutine
from contextlib import AbstractContextManager, asynccontextmanager, nullcontext
from dataclasses import dataclass
from functools import partial
from ipaddress import ip_address
from typing import Any

import structlog
from prometheus_client import Counter, Histogram

from sublet.accounts import store as account_store
from sublet.accounts.authenticate import authenticate
from sublet.cli.announced import announced
from sublet.cli.worker_metrics import WorkerMetrics
from sublet.cli.zone_metrics import PUBLISH_BUCKETS, ZoneMetrics
from sublet.config import Settings, parse_listen
from sublet.db import Clock, Database, open_database, utc_now
from sublet.dns.nameserver import NameServer
from sublet.dns.types import ZoneView
from sublet.errors import Unavailable
from sublet.http.app import build_app
from sublet.http.endpoints import BASE_PATH, Context
from sublet.http.limits import Limits, borrow_from
from sublet.http.observe import Metrics
from sublet.http.serve import listen, serve_http
from sublet.migrations import refuse_unusable_database
from sublet.platform_domains.name_servers import name_servers
from sublet.platform_domains.primaries import find_primary
from sublet.platform_domains.view_zone import view_zone
from sublet.serve_lock import serve_lock
from sublet.sqlite_copy import sqlite_path
from sublet.worker.clockwork import Clockwork, Monotonic, monotonic_seconds
from sublet.worker.mailer import Mailer
from sublet.worker.publisher import Publisher
from sublet.worker.server_watch import ServerWatch
from sublet.worker.smtp import SmtpTransport, smtp_server
from sublet.worker.transport import LogTransport, Transport
from sublet.worker.zone_keeper import ZoneKeeper
from sublet.worker.zone_watch import ZoneWatch

FLUSH_SECONDS = 30.0
STATEMENT_SECONDS = 30
"""How long one statement of the service may take on PostgreSQL."""
log = structlog.get_logger()


@dataclass(frozen=True, slots=True)
class Addresses:
    """Where a running service is reached: `{base_url}`, and the name server's host and port."""

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
    """Serve until `stop` is set, then finish what is under way. `on_ready` is told the addresses once it answers.

    Raises:
        Unavailable: the database can't be opened, is not initialised or not of this version, or is served already; or an
            address can't be listened on.
        SettingsError: the file of the mail server's password can't be read.
    """
    transport = _transport(settings)
    refuse_unusable_database(settings.database_url)
    with _only_one(settings.database_url):
        db = open_database(
            settings.database_url,
            clock,
            may_lose_writes=settings.database_may_lose_writes == "yes",
            statement_seconds=STATEMENT_SECONDS,
        )
        try:
            await _serve(settings, db, transport, stop, monotonic, on_ready)
        finally:
            await db.close()


def _transport(settings: Settings) -> Transport:
    return SmtpTransport(smtp_server(settings)) if settings.mail_transport == "smtp" else LogTransport()


async def _serve(
    settings: Settings,
    db: Database,
    transport: Transport,
    stop: asyncio.Event,
    monotonic: Monotonic,
    on_ready: Callable[[Addresses], None],
) -> None:
    metrics = Metrics()
    alone = sqlite_path(settings.database_url) is not None
    async with (
        announced(db, "serve", alone=alone) as presence,
        _name_server(settings, db, metrics) as dns_address,
    ):
        took = Histogram(
            "sublet_publish_seconds",
            "Time from a change of a name to its publication.",
            buckets=PUBLISH_BUCKETS,
            registry=metrics.registry,
        )
        primary_of = partial(find_primary, settings.primaries)
        publisher = Publisher(
            db,
            dns_address,
            primary_of,
            batch_max={each.name: each.batch_max for each in settings.primaries},
            on_published=lambda passed: took.observe(passed.total_seconds()),
            holder=presence.id,
            is_alone=presence.is_only_worker,
        )
        clockwork = Clockwork(db, monotonic, holder=presence.id)
        mailer = Mailer(db, transport)
        zone_watch, server_watch = ZoneWatch(db), ServerWatch(db, primary_of, monotonic)
        metrics.registry.register(WorkerMetrics(publisher, clockwork, mailer))
        keeper = ZoneKeeper(db, settings.database_url, primary_of, holder=presence.id)
        metrics.registry.register(ZoneMetrics(publisher, zone_watch, server_watch, keeper))
        parts = (publisher, clockwork, mailer, zone_watch, server_watch, keeper)
        async with _running(*(part.run() for part in parts)) as workers:
            context = Context(
                settings=settings,
                db=db,
                authenticate=authenticate,
                limits=Limits(settings, borrow_from(settings, db)),
                metrics=metrics,
                stopping=stop,
                readiness={"worker": lambda: not any(worker.done() for worker in workers)},
                name_servers=lambda each: name_servers(each, dns_address, settings.primaries),
            )
            host, port = parse_listen("http_listen", settings.http_listen)
            try:
                listening = listen(host, port)
            except OSError as error:
                raise Unavailable(
                    f"Can't listen on {settings.http_listen} for HTTP: {error.strerror}."
                ) from error
            shown = _shown(host, listening.getsockname()[1])
            app = build_app(context, (settings.public_url.rstrip("/") or f"http://{shown}") + BASE_PATH)
            on_ready(Addresses(f"http://{shown}{BASE_PATH}", dns_address))
            log.info("serving", http=f"http://{shown}{BASE_PATH}", dns=_shown(*dns_address))
            async with _running(_flush_token_uses(context)):
                await serve_http(app, listening, stop)
        await _flush(context)
        log.info("stopped")


@asynccontextmanager
async def _running(*parts: Coroutine[Any, Any, None]) -> AsyncIterator[list[asyncio.Task[None]]]:
    """Run parts of the service beside each other; in the end they are cancelled, and what they do then is waited for."""
    tasks = [asyncio.create_task(part) for part in parts]
    try:
        yield tasks
    finally:
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)


@asynccontextmanager
async def _name_server(settings: Settings, db: Database, metrics: Metrics) -> AsyncIterator[tuple[str, int]]:
    """Run the built-in name server; gives the address at which this host reaches it."""
    host, port = parse_listen("dns_listen", settings.dns_listen)
    addresses = _public_addresses(settings, host)
    answered = Counter(
        "sublet_dns_answers", "Queries answered, by response code.", ("rcode",), registry=metrics.registry
    )

    async def read_zone(name: str) -> ZoneView | None:
        return await db.read(view_zone, name, addresses)

    server = NameServer(read_zone, on_answer=lambda rcode: answered.labels(rcode).inc())
    try:
        port = await server.start(host, port)
    except OSError as error:
        raise Unavailable(f"Can't listen on {settings.dns_listen} for DNS: {error.strerror}.") from error
    try:
        yield {"0.0.0.0": "127.0.0.1", "::": "::1"}.get(host, host), port  # noqa: S104 - asked for by the operator
    finally:
        await server.close()


def _public_addresses(settings: Settings, host: str) -> tuple[str, ...]:
    """Return what apex nameservers inside a zone resolve to: the setting, or the address that is listened on."""
    texts = [text.strip() for text in settings.dns_addresses.split(",") if text.strip()]
    try:
        given = [ip_address(text) for text in texts or [host]]
    except ValueError:
        return ()
    return tuple(str(address) for address in given if not address.is_unspecified)


async def _flush_token_uses(context: Context) -> None:
    while True:
        await asyncio.sleep(FLUSH_SECONDS)
        await _flush(context)


async def _flush(context: Context) -> None:
    used = dict(context.used_tokens)
    if not used:
        return
    try:
        await context.db.write(account_store.touch_tokens, used)
    except Unavailable:
        return  # nothing depends on it; the next flush tries again
    for token_id in used:
        context.used_tokens.pop(token_id, None)


def _only_one(database_url: str) -> AbstractContextManager[None]:
    path = sqlite_path(database_url)
    return nullcontext() if path is None else serve_lock(path)


def _shown(host: str, port: int) -> str:
    return f"[{host}]:{port}" if ":" in host else f"{host}:{port}"
