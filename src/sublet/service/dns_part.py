"""The DNS as a part of a process: the built-in name server, DNS UPDATE, and the addresses at which this host
reaches all built-in name servers.
"""

from collections.abc import AsyncIterator, Collection, Mapping
from contextlib import asynccontextmanager, suppress

from prometheus_client import Counter

from sublet.child_zones.automatic_ds import schedule_check
from sublet.config import Settings, SettingsError, parse_dns_servers, parse_listen, public_dns_addresses
from sublet.db import Database
from sublet.dns.listener import Listener
from sublet.dns.nameserver import NameServer
from sublet.dns.types import ZoneView
from sublet.errors import Unavailable
from sublet.health.store import list_followed
from sublet.metrics import Metrics
from sublet.operations.call import Context
from sublet.subdomains.view_zone import view_zones
from sublet.updates.server import UpdateServer
from sublet.updates.wire import MESSAGE_BYTES_MAX


@asynccontextmanager
async def name_server_running(
    settings: Settings, db: Database, metrics: Metrics
) -> AsyncIterator[tuple[str, int]]:
    """Run the built-in name server until the block ends.

    Yield the address at which this host reaches the server.

    Raises:
        Unavailable: the address in `dns_listen` can't be used.
    """
    host, port = parse_listen("dns_listen", settings.dns_listen)
    addresses = public_dns_addresses(settings)
    answered = Counter(
        "sublet_dns_answers", "Queries answered, by response code.", ("rcode",), registry=metrics.registry
    )

    limited = Counter(
        "sublet_dns_limited", "Responses over UDP truncated by the limit.", registry=metrics.registry
    )

    async def read_zones(names: Collection[str]) -> Mapping[str, ZoneView]:
        return await db.read(view_zones, names, addresses)

    async def on_notify(child: str) -> None:
        with suppress(Unavailable):  # already logged; the daily check finds the change too
            await db.write(schedule_check, child)

    async def find_followed(children: Collection[str]) -> Mapping[str, str]:
        return await db.read(list_followed, children)

    server = NameServer(
        read_zones,
        on_answer=lambda rcode: answered.labels(rcode).inc(),
        on_limited=limited.inc,
        on_notify=on_notify,
        find_followed=find_followed,
    )
    try:
        port = await server.start(host, port)
    except OSError as error:
        raise Unavailable(
            f"Can't listen on {settings.dns_listen} for DNS: {error.strerror}. Check `dns_listen`."
        ) from error
    try:
        yield _local_address(host, port)
    finally:
        await server.close()


def built_in_addresses(settings: Settings, own: tuple[str, int] | None = None) -> tuple[tuple[str, int], ...]:
    """Return the addresses at which this host reaches the built-in name servers, in the order in which they
    are queried.

    These are the addresses in `dns_servers`; if that setting is empty, `own` (the name server of this
    process) or else `dns_listen`.

    Raises:
        SettingsError: `dns_servers` is empty, and the port in `dns_listen` is 0.
    """
    listed = parse_dns_servers(settings.dns_servers)
    if listed:
        return listed
    if own is not None:
        return (own,)
    host, port = parse_listen("dns_listen", settings.dns_listen)
    if port == 0:
        raise SettingsError(
            "dns_servers: Give the address and port of `sublet dns`, because dns_listen has port 0."
        )
    return (_local_address(host, port),)


def _local_address(host: str, port: int) -> tuple[str, int]:
    return {"0.0.0.0": "127.0.0.1", "::": "::1"}.get(host, host), port  # noqa: S104 - the operator's setting


@asynccontextmanager
async def updates_accepted(context: Context) -> AsyncIterator[tuple[str, int] | None]:
    """Answer DNS UPDATE until the block ends, and yield the address; None if `update_listen` is empty.

    Raises:
        Unavailable: the address can't be used.
    """
    settings = context.settings
    answered = Counter(
        "sublet_update_answers",
        "Messages answered at update_listen, by response code.",
        ("rcode",),
        registry=context.metrics.registry,
    )
    if not settings.update_listen or context.update_secret is None:
        yield None
        return
    server = UpdateServer(
        context, context.update_secret, on_answer=lambda rcode: answered.labels(rcode).inc()
    )
    host, port = parse_listen("update_listen", settings.update_listen)
    listener = Listener(server.reply, message_bytes_max=MESSAGE_BYTES_MAX, udp_batch_max=1, is_shared=True)
    try:
        port = await listener.start(host, port)
    except OSError as error:
        raise Unavailable(
            f"Can't listen on {settings.update_listen} for DNS UPDATE: {error.strerror}. "
            "Check `update_listen`."
        ) from error
    try:
        yield host, port
    finally:
        await listener.close()
