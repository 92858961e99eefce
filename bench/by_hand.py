"""The second reference of the reads: GET of a name, written by hand with Starlette.

    by_hand.py PORT DATABASE_URL

It runs the two statements of the service, for the token and for the name, and encodes the stored members with
msgspec. It checks nothing, counts nothing and logs nothing.
"""

import sqlite3
import sys
from collections.abc import Awaitable, Callable
from itertools import cycle
from typing import Any

import msgspec
import psycopg
import uvicorn
import uvloop
from psycopg.rows import dict_row
from sqlalchemy import create_engine
from starlette.applications import Starlette
from starlette.requests import Request
from starlette.responses import Response
from starlette.routing import Route

from sublet.accounts.store import REGISTRANT_BY_DIGEST
from sublet.accounts.tokens.issue import digest
from sublet.db.postgresql import QUERIES
from sublet.subdomains.store import OWN_BY_NAME

MEMBERS = (
    *("id", "fqdn", "label", "domain", "public_name", "registration_type", "registration_source"),
    *("nameservers", "glue", "ds_records", "provision_error", "registered_at", "expires_at"),
    *("last_renewed_at", "created_at", "updated_at"),
)
JSON_MEMBERS = ("nameservers", "glue", "ds_records")
Ask = Callable[[str, dict[str, Any]], Awaitable[Any]]


def on_sqlite(path: str) -> Ask:
    """Return a function that returns the first row of a statement."""
    connection = sqlite3.connect(path)
    connection.row_factory = sqlite3.Row

    async def ask(text: str, values: dict[str, Any]) -> Any:
        return connection.execute(text, values).fetchone()

    return ask


async def on_postgresql(url: str) -> Ask:
    """Return a function that returns the first row of a statement."""
    connections = cycle(
        [
            await psycopg.AsyncConnection.connect(
                url, autocommit=True, prepare_threshold=0, row_factory=dict_row
            )
            for _ in range(QUERIES)
        ]
    )

    async def ask(text: str, values: dict[str, Any]) -> Any:
        return await (await next(connections).execute(text, values)).fetchone()

    return ask


async def serve(port: int, url: str) -> None:
    """Answer requests until the process is stopped."""
    is_sqlite = url.startswith("sqlite")
    dialect = (
        create_engine("sqlite://", paramstyle="named")
        if is_sqlite
        else create_engine("postgresql+psycopg://")
    ).dialect
    of_token, of_name = (
        str(each.statement.compile(dialect=dialect)) for each in (REGISTRANT_BY_DIGEST, OWN_BY_NAME)
    )
    ask = on_sqlite(url.removeprefix("sqlite:///")) if is_sqlite else await on_postgresql(url)

    async def get(request: Request) -> Response:
        token = request.headers["authorization"].removeprefix("Bearer ")
        user = await ask(of_token, {"token_digest": digest(token)})
        row = await ask(of_name, {"owner_id": user["id"], "name": request.path_params["fqdn"]})
        shown = {name: row[name] for name in MEMBERS}
        if is_sqlite:
            shown |= {name: msgspec.Raw(row[name].encode()) for name in JSON_MEMBERS}
        return Response(msgspec.json.encode({"ok": True, "subdomain": shown}), media_type="application/json")

    app = Starlette(routes=[Route("/api/v1/subdomains/{fqdn}", get)])
    config = uvicorn.Config(
        app, port=port, log_level="error", access_log=False, ws="none", lifespan="off", proxy_headers=False
    )
    await uvicorn.Server(config).serve()


if __name__ == "__main__":
    uvloop.run(serve(int(sys.argv[1]), sys.argv[2]))
