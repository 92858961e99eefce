"""Send requests at the same time, each on a connection of its own."""

import asyncio
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import httpx

from support import http_clients
from support.running_service import Registrant, RunningService


@dataclass(frozen=True, slots=True)
class Request:
    """A request to the API, or with a path from `/auth` to the service."""

    method: str
    path: str
    body: Any = None
    who: Registrant | str | None = None
    headers: Mapping[str, str] = field(default_factory=dict)


def send_at_once(service: RunningService, requests: Sequence[Request]) -> list[httpx.Response]:
    """Open a connection for each request, wait until all are open, then send all, and return the answers in
    order.
    """
    origin = service.origin
    barrier = asyncio.Barrier(len(requests))

    async def send(request: Request) -> httpx.Response:
        base = origin if request.path.startswith("/auth/") else service.base_url
        headers = dict(request.headers)
        if request.who is not None:
            token = request.who if isinstance(request.who, str) else request.who.token
            headers["authorization"] = f"Bearer {token}"
        async with http_clients.AsyncClient(timeout=300) as client:
            await client.get(f"{origin}/healthz")
            await barrier.wait()
            more = {} if request.body is None else {"json": request.body}
            return await client.request(request.method, base + request.path, headers=headers, **more)

    async def run() -> list[httpx.Response]:
        return list(await asyncio.gather(*map(send, requests)))

    return asyncio.run(run())
