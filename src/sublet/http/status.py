"""The pages outside `{base_url}`, of every kind of process: whether it lives, whether it is ready, and its metrics."""

import asyncio
from collections.abc import Awaitable, Callable, Mapping
from dataclasses import dataclass

from starlette.requests import Request
from starlette.responses import JSONResponse, Response

from sublet.db import Database
from sublet.errors import Unavailable
from sublet.http.observe import METRICS_TYPE, Metrics
from sublet.http.store import answers

Page = Callable[[Request], Awaitable[Response]]


@dataclass(frozen=True, slots=True)
class Status:
    """What these pages tell of a process: its database, its other parts by name, whether it is ending, its metrics."""

    db: Database
    metrics: Metrics
    stopping: asyncio.Event
    readiness: Mapping[str, Callable[[], bool]]


def status_pages(status: Status) -> dict[str, Page]:
    """Return the pages by their paths."""

    async def healthz(_request: Request) -> Response:
        return JSONResponse({"ok": True})

    async def readyz(_request: Request) -> Response:
        checks = {"database": True, **{name: check() for name, check in status.readiness.items()}}
        try:
            await status.db.read(answers)
        except Unavailable:
            checks["database"] = False
        ready = all(checks.values()) and not status.stopping.is_set()
        return JSONResponse({"ok": ready, "checks": checks}, status_code=200 if ready else 503)

    async def metrics(_request: Request) -> Response:
        return Response(status.metrics.render(), media_type=METRICS_TYPE)

    return {"/healthz": healthz, "/readyz": readyz, "/metrics": metrics}
