"""DNS UPDATE as a part of a process with the API."""

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

from prometheus_client import Counter

from sublet.config import parse_listen
from sublet.dns.listener import Listener
from sublet.errors import Unavailable
from sublet.operations.call import Context
from sublet.updates.server import UpdateServer
from sublet.updates.wire import MESSAGE_BYTES_MAX


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
