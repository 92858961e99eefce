"""Open TCP connections to name servers, and read messages from them (RFC 1035, section 4.2.2)."""

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

Streams = tuple[asyncio.StreamReader, asyncio.StreamWriter]


class ConnectionFailed(Exception):  # noqa: N818 - named for what the caller sees
    """A connection could not be opened, or ended too early.

    `str()` is the rest of a sentence that starts with the server's name.

    `cause` is "unreachable" (the server accepts no connection) or "no_answer" (a timeout, or the connection
    was lost). `errno` is the number of the system's error, or None.
    """

    def __init__(self, cause: str, detail: str, errno: int | None = None) -> None:
        super().__init__(detail)
        self.cause = cause
        self.errno = errno


@asynccontextmanager
async def connected(
    address: tuple[str, int], timeout_seconds: float, *, limits_block: bool = True
) -> AsyncIterator[Streams]:
    """Open a connection to an IP address and port, and abort the connection at the end of the block.

    `timeout_seconds` limits opening the connection and the block together; without `limits_block`, only
    opening it. A timeout that the block sets raises `ConnectionFailed` too.

    Raises:
        ConnectionFailed: the connection couldn't be opened, or failed during the block.
    """
    writer = None
    try:
        async with asyncio.timeout(timeout_seconds) as timeout:
            reader, writer = await asyncio.open_connection(*address)
            if not limits_block:
                timeout.reschedule(None)
            yield reader, writer
    except TimeoutError:
        if writer is None:
            detail = f"accepts no connection within {timeout_seconds:g} s"
            raise ConnectionFailed("unreachable", detail) from None
        raise ConnectionFailed("no_answer", f"did not answer within {timeout_seconds:g} s") from None
    except EOFError:
        raise ConnectionFailed("no_answer", "closed the connection before it answered") from None
    except OSError as error:
        reason = error.strerror or error
        if writer is None:
            raise ConnectionFailed("unreachable", f"can't be reached: {reason}", error.errno) from error
        raise ConnectionFailed("no_answer", f"aborted the connection: {reason}") from error
    finally:
        if writer is not None:
            writer.transport.abort()


async def read_message(reader: asyncio.StreamReader) -> bytes:
    """Return the next message without its length prefix."""
    size_bytes = int.from_bytes(await reader.readexactly(2), "big")
    return await reader.readexactly(size_bytes)
