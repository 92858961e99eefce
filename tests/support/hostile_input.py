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
    platform_domain_id: int

    @property
    def address(self) -> tuple[str, int]:
        """The address of the API."""
        url = httpx.URL(self.service.base_url)
        return url.host, url.port or 0

    def send(self, body: bytes, path: str = "/subdomains", **headers: str) -> httpx.Response:
        """Send octets as the JSON body of a POST."""
        sent = {"authorization": f"Bearer {self.user.token}", "content-type": "application/json"}
        sent |= {name.replace("_", "-"): value for name, value in headers.items()}
        return self.service.client.post(self.service.base_url + path, content=body, headers=sent)

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
    domain_id = service.add_domain("example.test")
    user = service.add_user(credit_count=1000)
    service.register(user, "blog.example.test", nameservers=["ns1.provider.example"])
    opened = service.call(user, "POST", "/support/tickets", {"subject": "Hello", "message": "What is glue?"})
    assert opened.status_code == 201
    return Target(service, user, domain_id)


MOVED_BY_TIME = {"last_used_at", "last_used_from", "due_at", "loss_at", "seen_at", "made_at", "losses"}
"""Columns that change without a writing request: the last use of a token, and the instants that the sweep
stores.
"""


MADE_BY_PROCESSES = {
    *("forecasts", "commit_marks", "processes", "leases", "rate_windows", "operator_notices"),
    *("delegation_health", "health_changes", "health_targets"),
}
"""Tables that processes write independently of requests."""


def stored(target: Target) -> Rows:
    """Return all rows of all tables, without `MOVED_BY_TIME` and `MADE_BY_PROCESSES`."""

    def ask(tx: Tx) -> Rows:
        rows = {}
        for table in metadata.sorted_tables:
            if table.name not in MADE_BY_PROCESSES:
                kept = [column for column in table.columns if column.name not in MOVED_BY_TIME]
                rows[table.name] = sorted(
                    (tuple(row) for row in tx.connection.execute(select(*kept))), key=repr
                )
        return rows

    return target.service.read(ask)


@contextmanager
def nothing_stored(target: Target) -> Iterator[None]:
    """Check that the block changes no table."""
    before = stored(target)
    assert before["subdomains"], "there is nothing that could change"
    yield
    assert stored(target) == before


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


def codes(members: dict[str, Any]) -> set[tuple[str, str]]:
    """Return the codes of a refusal's wrong fields, by field."""
    return {(each["field"], each["code"]) for each in members["errors"]}


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
