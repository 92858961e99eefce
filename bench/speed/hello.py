"""References of the reads: a bare JSON answer by a framework, on the server that the service runs on: `hello.py litestar|starlette PORT`.

Litestar is what such an API would be written with ready made; Starlette is what lies below ours (docs/decisions/0001-starlette-instead-of-litestar.md).
"""

import sys
from typing import Any

import litestar
import uvicorn
from starlette.applications import Starlette
from starlette.requests import Request
from starlette.responses import JSONResponse, Response
from starlette.routing import Route

ANSWER = {"ok": True, "hello": "world"}


@litestar.get("/")
async def hello() -> dict[str, Any]:
    """Answer."""
    return ANSWER


async def hello_of_starlette(_request: Request) -> Response:
    """Answer."""
    return JSONResponse(ANSWER)


if __name__ == "__main__":
    application: Any = (
        litestar.Litestar([hello], openapi_config=None)
        if sys.argv[1] == "litestar"
        else Starlette(routes=[Route("/", hello_of_starlette)])
    )
    uvicorn.run(
        application,
        port=int(sys.argv[2]),
        log_level="error",
        access_log=False,
        loop="uvloop",
        http="httptools",
        ws="none",
        lifespan="off",
        proxy_headers=False,
    )
