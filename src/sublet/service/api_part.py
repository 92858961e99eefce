"""The API as a part of a process: served on a listening socket until `stop` is set."""

import asyncio
import resource
import socket
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from functools import cache

import structlog

from sublet import __version__
from sublet.accounts import session_store
from sublet.accounts import store as account_store
from sublet.accounts.authenticate import authenticate
from sublet.accounts.store import Use
from sublet.config import Settings, parse_listen
from sublet.db import Database, Tx
from sublet.errors import Unavailable
from sublet.health.checker import Checker
from sublet.http.app import build_app
from sublet.http.docs_page import Document
from sublet.http.dyndns import Dyndns
from sublet.http.openapi import build_document
from sublet.http.serve import bind, listen, serve_http
from sublet.metrics import Metrics
from sublet.operations.call import Context
from sublet.operations.operation import BASE_PATH
from sublet.operations.publication_wait import PublicationWaiter
from sublet.operations.rate_limiter import RateLimiter, choose_reserve
from sublet.platform_domains.model import name_servers
from sublet.service.dns_part import updates_accepted
from sublet.service.event_loop import run_in_background
from sublet.service.systemd import passed_socket
from sublet.subdomains.update_keys.keys import read_server_secret
from sublet.surfaces import OPERATIONS, RDAP_OPERATIONS
from sublet.web.console import Console

FLUSH_SECONDS = 30.0
SPARE_DESCRIPTORS = 256
"""File descriptors for everything except clients: the database, name servers, files."""
log = structlog.get_logger()


def api_socket(settings: Settings, *, listens: bool = True) -> socket.socket:
    """Return the socket for the API: a socket that systemd passed, or a new socket on `http_listen`.

    With `listens=False` a new socket is bound but doesn't listen yet. Clients are refused and try another
    host instead of waiting until this one has started.

    Raises:
        Unavailable: raised by `passed_socket`; or the address can't be used.
    """
    return passed_socket() or http_socket(settings.http_listen, "http_listen", listens=listens)


def http_socket(address: str, setting: str, *, listens: bool = True) -> socket.socket:
    """Return a socket for HTTP on the address of a setting.

    With `listens=False` the socket is bound but doesn't listen yet.

    Raises:
        Unavailable: the address can't be used.
    """
    make = listen if listens else bind
    try:
        return make(*parse_listen(setting, address))
    except OSError as error:
        raise Unavailable(
            f"Can't listen on {address} for HTTP: {error.strerror}. Check `{setting}`."
        ) from error


def origin_of(listening: socket.socket) -> str:
    """Return `http://host:port` of a listening socket."""
    host, port, *_ = listening.getsockname()
    return f"http://{host_and_port(host, port)}"


def host_and_port(host: str, port: int) -> str:
    """Return an address as text: `127.0.0.1:53`, `[::1]:53`."""
    return f"[{host}]:{port}" if ":" in host else f"{host}:{port}"


async def serve_api(
    settings: Settings,
    db: Database,
    metrics: Metrics,
    listening: socket.socket,
    stop: asyncio.Event,
    *,
    built_in: Sequence[tuple[str, int]],
    readiness: Mapping[str, Callable[[], bool]],
    on_ready: Callable[[str], None],
) -> None:
    """Answer requests until `stop` is set, then drain. Calls `on_ready` with the base URL once it listens.

    `built_in` has the addresses of the built-in name servers, `readiness` the checks of `/readyz` besides the
    database.

    Raises:
        Unavailable: another process listens on the address already.
    """
    context = Context(
        settings=settings,
        db=db,
        authenticate=authenticate,
        rate_limiter=RateLimiter(settings, choose_reserve(settings, db)),
        metrics=metrics,
        publication_waiter=PublicationWaiter(db),
        stopping=stop,
        readiness=dict(readiness),
        checker=Checker(settings, db) if settings.health_checks else None,
        update_secret=read_server_secret(settings.update_key_file),
        name_servers=lambda each: name_servers(each, built_in, settings.primaries),
    )
    origin = origin_of(listening)
    public_url = settings.public_url.rstrip("/") or origin

    @cache
    def document() -> Document:
        return build_document(OPERATIONS, public_url + BASE_PATH, __version__)

    operations = (*OPERATIONS, *(RDAP_OPERATIONS if settings.rdap else ()))
    console = Console(context, public_url, document, operations)
    app = build_app(
        context,
        public_url,
        document,
        operations,
        console_routes=[*Dyndns(context, public_url, OPERATIONS).routes(), *console.routes()],
        refusal_page=console.refuse,
    )
    async with run_in_background(_flush_token_uses(context)), updates_accepted(context) as updates:
        if updates is not None:
            log.info("accepting_updates", dns=host_and_port(*updates))
        try:
            await serve_http(
                app,
                listening,
                stop,
                connections_max=allow_connections(settings.http_connections_max),
                on_listening=lambda: on_ready(origin + BASE_PATH),
            )
        except OSError as error:
            raise Unavailable(f"Can't listen on {origin}: {error.strerror}. Check `http_listen`.") from error
    await _flush(context)


async def _flush_token_uses(context: Context) -> None:
    while True:
        await asyncio.sleep(FLUSH_SECONDS)
        await _flush(context)


async def _flush(context: Context) -> None:
    await _flush_uses(context, context.used_tokens, account_store.touch_tokens)
    await _flush_uses(context, context.used_sessions, session_store.touch_sessions)


async def _flush_uses(
    context: Context, unstored: dict[int, Use], touch: Callable[[Tx, dict[int, Use]], None]
) -> None:
    used = dict(unstored)
    if not used:
        return
    try:
        await context.db.write(touch, used)
    except Unavailable:
        return  # best effort; the next flush tries again
    except Exception:
        log.exception("uses_fault")
        return
    for credential_id in used:
        unstored.pop(credential_id, None)


def allow_connections(wanted: int) -> int:
    """Raise the limit of open files as far as allowed, and return how many of the `wanted` connections it
    permits, at least one.

    The default limit (usually 1,024) is often lower than the limit that the process may set.
    """
    _, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    # A systemd unit may forbid the system call, for which CPython raises ValueError.
    with suppress(OSError, ValueError):
        resource.setrlimit(resource.RLIMIT_NOFILE, (hard, hard))
    descriptors, _ = resource.getrlimit(resource.RLIMIT_NOFILE)
    if descriptors == resource.RLIM_INFINITY or descriptors >= wanted + SPARE_DESCRIPTORS:
        return wanted
    log.warning("few_descriptors", connections_wanted=wanted, descriptors=descriptors)
    return max(1, descriptors - SPARE_DESCRIPTORS)
