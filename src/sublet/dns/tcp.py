"""A TCP connection to a name server, and the messages on it (RFC 1035, section 4.2.2)."""

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

Streams = tuple[asyncio.StreamReader, asyncio.StreamWriter]


class ConnectionFailed(Exception):  # noqa: N818 - named for what has happened; whose fault it is the caller knows
    """A connection did not come about, or ended too early: `str()` goes on after the server's name.

    `cause` is "unreachable" (the server takes no connection) or "no_answer" (it did not answer in time, or the connection was lost).
    """

    def __init__(self, cause: str, detail: str) -> None:
        super().__init__(detail)
        self.cause = cause


@asynccontextmanager
async def connected(address: tuple[str, int], timeout_seconds: float) -> AsyncIterator[Streams]:
    """Open a connection to an IP address and port; it and all that is done on it get `timeout_seconds` together.

    Raises:
        ConnectionFailed: whatever goes wrong with the connection, also inside the block. It is cut off at the block's end.
    """
    writer = None
    try:
        async with asyncio.timeout(timeout_seconds):
            reader, writer = await asyncio.open_connection(*address)
            yield reader, writer
    except TimeoutError:
        if writer is None:
            detail = f"takes no connection within {timeout_seconds:g} s"
            raise ConnectionFailed("unreachable", detail) from None
        raise ConnectionFailed("no_answer", f"did not answer within {timeout_seconds:g} s") from None
    except EOFError:
        raise ConnectionFailed("no_answer", "closed the connection before it had answered") from None
    except OSError as error:
        told = error.strerror or error
        if writer is None:
            raise ConnectionFailed("unreachable", f"can't be reached: {told}") from error
        raise ConnectionFailed("no_answer", f"broke off the connection: {told}") from error
    finally:
        if writer is not None:
            writer.transport.abort()


async def read_message(reader: asyncio.StreamReader) -> bytes:
    """Return the next message, without the two bytes of its length before it."""
    size_bytes = int.from_bytes(await reader.readexactly(2), "big")
    return await reader.readexactly(size_bytes)
