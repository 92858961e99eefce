"""Tools for tests with hostile input: a target, checks of refusals and of stored rows, and raw HTTP over a
socket.
"""

import json
import socket
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from typing import Any

import httpx
from sqlalchemy import select

from sublet.db import Tx
from sublet.schema import metadata
from support.running_service import Registrant, RunningService

Rows = dict[str, list[tuple[Any, ...]]]


@dataclass(frozen=True, slots=True)
class Target:
    """A running service, and a user with credits, a platform domain, a name and a ticket."""

    service: RunningService
    user: Registrant

    @property
    def address(self) -> tuple[str, int]:
        """The address of the API."""
        url = httpx.URL(self.service.base_url)
        return url.host, url.port or 0

    def call(self, method: str, path: str, body: Any = None, **headers: str) -> httpx.Response:
        """Send a request as the user."""
        return self.service.call(self.user, method, path, body, **headers)

    def request_head(self, method: str = "GET", path: str = "/me", *headers: str) -> bytes:
        """Return the head of a request as octets, with the user's token."""
        host, port = self.address
        lines = [
            f"{method} /api/v1{path} HTTP/1.1",
            f"Host: {host}:{port}",
            f"Authorization: Bearer {self.user.token}",
            *headers,
            "",
            "",
        ]
        return "\r\n".join(lines).encode("latin-1")


def prepare(service: RunningService) -> Target:
    """Prepare the target of hostile requests: `blog.example.test`, a ticket, and 1,000 credits."""
    service.add_domain("example.test")
    user = service.add_user(credit_count=1000)
    service.register(user, "blog.example.test", nameservers=["ns1.provider.example"])
    opened = service.call(user, "POST", "/support/tickets", {"subject": "Hello", "message": "What is glue?"})
    assert opened.status_code == 201
    return Target(service, user)


MOVED_BY_TIME = frozenset(
    {
        ("tokens", "last_used_at"),
        ("tokens", "last_used_from"),
        ("subdomains", "due_at"),
        ("audit_events", "address"),
        ("subdomains", "loss_at"),
        ("clockwork", "seen_at"),
    }
)
"""Columns that change at any request, refused or not, or when the sweep runs: the approximate time and place
of a token's last use, the dates of the sweep, and old addresses, which it deletes.
"""


MADE_BY_PROCESSES = {
    *("forecasts", "commit_marks", "processes", "leases", "rate_windows", "operator_notices"),
    *("delegation_health", "health_changes", "health_targets"),
}
"""Tables that processes write independently of requests."""


def stored(tx: Tx) -> Rows:
    """Return all rows of all tables in the order of the primary keys, without `MOVED_BY_TIME` and
    `MADE_BY_PROCESSES`.
    """
    found = {}
    for table in metadata.sorted_tables:
        columns = [column for column in table.columns if (table.name, column.name) not in MOVED_BY_TIME]
        if columns and table.name not in MADE_BY_PROCESSES:
            rows = tx.connection.execute(select(*columns).order_by(*table.primary_key.columns))
            found[table.name] = [tuple(row) for row in rows]
    return found


@contextmanager
def nothing_stored(target: Target) -> Iterator[None]:
    """Check that the block changes no table."""
    before = target.service.read(stored)
    assert before["subdomains"], "there is nothing that could change"
    yield
    assert target.service.read(stored) == before


def refusal(answer: httpx.Response, *statuses: int) -> dict[str, Any]:
    """Check that an answer is a refusal with one of these statuses; return its envelope."""
    assert answer.status_code in statuses, (answer.status_code, answer.text[:500])
    return envelope(answer.status_code, dict(answer.headers), answer.content)


def envelope(status: int, headers: dict[str, str], content: bytes) -> dict[str, Any]:
    """Check that an answer is a refusal whose sentences say what to do; return its envelope."""
    assert 400 <= status < 500, (status, content[:500])
    assert headers["content-type"] == "application/json"
    members: dict[str, Any] = json.loads(content)
    assert members["ok"] is False
    assert members["error"]
    assert len(members["message"]) > 10
    assert members["request_id"] == headers["x-request-id"]
    assert all(
        each["field"] is not None and each["code"] and len(each["message"]) > 5 for each in members["errors"]
    )
    assert isinstance(members["details"], dict)
    return members


def exchange(target: Target, octets: bytes, *, ends: bool = False) -> bytes:
    """Send octets on a new connection, and return the octets received until the service closes it.

    With `ends` the client's side is closed after the octets. A reset of the connection also ends the reading.
    """
    with socket.create_connection(target.address, timeout=60) as connection:
        received = b""
        with suppress(ConnectionError):
            connection.sendall(octets)
            if ends:
                connection.shutdown(socket.SHUT_WR)
            while chunk := connection.recv(65536):
                received += chunk
        return received


def parse_answer(received: bytes) -> tuple[int, dict[str, str], bytes]:
    """Return status, headers (lower-case names) and body of one HTTP answer."""
    head, _, body = received.partition(b"\r\n\r\n")
    first, *lines = head.decode("latin-1").split("\r\n")
    version, status, *_ = first.split(" ")
    assert version == "HTTP/1.1"
    headers = {name.lower(): value.strip() for name, _, value in (line.partition(":") for line in lines)}
    return int(status), headers, body[: int(headers.get("content-length", len(body)))]
