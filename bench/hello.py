"""The reference of the reads: a bare JSON answer by Litestar on uvicorn, in one process: `hello.py PORT`."""

import sys

import litestar
import uvicorn


@litestar.get("/")
async def hello() -> dict[str, object]:
    """Answer with a small JSON object."""
    return {"ok": True, "hello": "world"}


if __name__ == "__main__":
    uvicorn.run(
        litestar.Litestar([hello], openapi_config=None),
        port=int(sys.argv[1]),
        log_level="error",
        access_log=False,
        loop="uvloop",
        http="httptools",
        ws="none",
        lifespan="off",
        proxy_headers=False,
    )
