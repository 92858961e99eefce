"""A connection to the API for measurements that look at single requests: as little client as will do."""

import asyncio
import json
from typing import Any
from urllib.parse import urlsplit


class Connection:
    """A kept HTTP connection that sends one request at a time; as little client as will do."""

    def __init__(self, url: str, token: str) -> None:
        self._url = urlsplit(url)
        self._token = token

    async def open(self) -> None:
        """Connect."""
        assert self._url.hostname is not None
        self._reader, self._writer = await asyncio.open_connection(self._url.hostname, self._url.port)

    async def send(self, method: str, path: str, body: Any = None) -> tuple[int, bytes]:
        """Send a request and return the answer's status and body."""
        content = b"" if body is None else json.dumps(body).encode()
        head = f"{method} {path} HTTP/1.1\r\nhost: x\r\nauthorization: Bearer {self._token}\r\ncontent-length: {len(content)}\r\n"
        if content:
            head += "content-type: application/json\r\n"
        self._writer.write(head.encode() + b"\r\n" + content)
        received = await self._reader.readuntil(b"\r\n\r\n")
        length = int(received.lower().partition(b"content-length: ")[2].partition(b"\r\n")[0])
        return int(received[9:12]), await self._reader.readexactly(length)

    async def close(self) -> None:
        """Disconnect."""
        self._writer.close()
        await self._writer.wait_closed()
