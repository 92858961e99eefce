"""The API as a part of a process: served on a listening socket until it is told to stop."""

import asyncio
import socket
from collections.abc import Callable, Mapping, Sequence

import structlog

from sublet.accounts import store as account_store
from sublet.accounts.authenticate import authenticate
from sublet.config import Settings, parse_listen
from sublet.db import Database
from sublet.errors import Unavailable
from sublet.http.app import build_app
from sublet.http.endpoints import BASE_PATH, Context
from sublet.http.limits import Limits, borrow_from
from sublet.http.observe import Metrics
from sublet.http.serve import bind, listen, serve_http
from sublet.http.settling import Settling
from sublet.platform_domains.name_servers import name_servers
from sublet.service.descriptors import allow_connections
from sublet.service.running import running
from sublet.service.systemd import passed_socket

FLUSH_SECONDS = 30.0
log = structlog.get_logger()


def api_socket(settings: Settings, *, listens: bool = True) -> socket.socket:
    """Return the socket that the API is served on: the one that systemd passed, or one that listens on `http_listen`.

    With `listens` False the latter only has its address, and who connects is refused until it is served: so a client takes another
    process, rather than wait for this one to begin.

    Raises:
        Unavailable: it can't be listened on; or what was passed isn't one listening socket.
    """
    return passed_socket() or http_socket(settings.http_listen, "http_listen", listens=listens)


def http_socket(address: str, setting: str, *, listens: bool = True) -> socket.socket:
    """Return a socket for HTTP on the address of a setting, as `api_socket`.

    Raises:
        Unavailable: it can't be listened on.
    """
    make = listen if listens else bind
    try:
        return make(*parse_listen(setting, address))
    except OSError as error:
        raise Unavailable(
            f"Can't listen on {address} for HTTP: {error.strerror}. Check `http_listen`."
        ) from error


def origin_of(listening: socket.socket) -> str:
    """Return `http://host:port` of a listening socket."""
    host, port, *_ = listening.getsockname()
    return f"http://{shown(host, port)}"


def shown(host: str, port: int) -> str:
    """Return an address as it is written: `127.0.0.1:53`, `[::1]:53`."""
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
    """Answer requests until `stop` is set, and finish what is under way; `on_ready` is told `{base_url}` once it listens.

    `built_in` is where the built-in name servers answer, `readiness` what `/readyz` asks besides the database.

    Raises:
        Unavailable: it can't be listened on: somebody else came first.
    """
    context = Context(
        settings=settings,
        db=db,
        authenticate=authenticate,
        limits=Limits(settings, borrow_from(settings, db)),
        metrics=metrics,
        settling=Settling(db),
        stopping=stop,
        readiness=dict(readiness),
        name_servers=lambda each: name_servers(each, built_in, settings.primaries),
    )
    origin = origin_of(listening)
    app = build_app(context, (settings.public_url.rstrip("/") or origin) + BASE_PATH)
    async with running(_flush_token_uses(context)):
        try:
            await serve_http(
                app,
                listening,
                stop,
                connections_max=allow_connections(settings.http_connections_max),
                on_listening=lambda: on_ready(origin + BASE_PATH),
            )
        except OSError as error:
            raise Unavailable(f"Can't listen on {origin}: {error.strerror}. Check the setting.") from error
    await _flush(context)


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
    except Exception:
        log.exception("token_uses_fault")
        return
    for token_id in used:
        context.used_tokens.pop(token_id, None)
