"""Answers on a kept connection come at once."""

import asyncio
import socket

from sublet.http.serve import listen


def test_accepted_connections_have_tcp_nodelay() -> None:
    """asyncio turns Nagle's algorithm off on what our listening socket accepts; else each answer takes 40 ms
    more.
    """

    async def accept() -> int:
        found: asyncio.Future[int] = asyncio.get_running_loop().create_future()

        def connected(_reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
            found.set_result(
                writer.get_extra_info("socket").getsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY)
            )
            writer.close()

        listening = listen("127.0.0.1", 0)
        async with await asyncio.start_server(connected, sock=listening):
            _, writer = await asyncio.open_connection(*listening.getsockname())
            nodelay = await found
            writer.close()
            await writer.wait_closed()
        return nodelay

    assert asyncio.run(accept()) != 0
