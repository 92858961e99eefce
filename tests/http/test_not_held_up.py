"""Requests that are built to take long don't hold up other clients: their time beside that of harmless
requests of the same size.
"""

import select
import socket
import statistics
import time
from collections.abc import Iterator
from urllib.parse import urlsplit

import pytest

from support.running_service import Registrant, RunningService, registry_address, running_service

ROUNDS = 5
FACTOR = 10.0
TRIES = 4
"""How often the times are compared: on a busy machine a comparison may be wrong by chance."""


@pytest.fixture(scope="module")
def service(tmp_path_factory: pytest.TempPathFactory) -> Iterator[RunningService]:
    with running_service(registry_address(tmp_path_factory.mktemp("held_up"))) as running:
        yield running


@pytest.fixture(scope="module")
def ada(service: RunningService) -> Registrant:
    return service.add_user("ada@example.org")


def head(token: str, *fields: str) -> bytes:
    """Return the head of a request that changes nothing: its body is of no good form."""
    lines = [
        "POST /api/v1/support/tickets HTTP/1.1",
        "Host: a",
        f"Authorization: Bearer {token}",
        "Content-Length: 2",
        *fields,
    ]
    return "\r\n".join([*lines, "", "[]"]).encode()


def another_waits(service: RunningService, ada: Registrant, octets: bytes) -> float:
    """Return how many seconds another client waits at most for an answer, from when these octets are sent to
    when they are answered: the median of some rounds.
    """
    url = urlsplit(service.base_url)
    slowest = []
    for _ in range(ROUNDS):
        with socket.create_connection((url.hostname or "", url.port or 0), timeout=60) as connection:
            connection.sendall(octets)
            slowest.append(0.0)
            answered = False
            while not answered:  # one more after it is answered
                answered = bool(select.select([connection], [], [], 0)[0])
                started = time.perf_counter()
                assert service.call(ada, "GET", "/me").status_code == 200
                slowest[-1] = max(slowest[-1], time.perf_counter() - started)
            assert connection.recv(65536).startswith(b"HTTP/1.1 ")
    return statistics.median(slowest)


def compare(service: RunningService, ada: Registrant, hostile: bytes, harmless: bytes) -> None:
    """Require that the hostile octets keep others waiting little longer than the harmless ones."""
    assert service.call(ada, "GET", "/me").status_code == 200  # what a first request loads is loaded
    seen = []
    for _ in range(TRIES):
        usual = another_waits(service, ada, harmless)
        seen.append(another_waits(service, ada, hostile) / usual)
        if seen[-1] < FACTOR:
            return
    pytest.fail(f"others wait {', '.join(f'{each:.0f}' for each in seen)} times as long")


@pytest.mark.parametrize(
    "media_type",
    [
        "application/json" + " " * 31_000 + "x",
        "application/json;" + " " * 31_000 + "x",
        "application/json;charset" + " " * 15_000 + "=" + " " * 15_000 + "x",
        "application/json" + ";" * 31_000,
    ],
    ids=["spaces", "spaces after the semicolon", "spaces around the equals sign", "semicolons"],
)
def test_a_content_type_of_31000_characters(
    service: RunningService, ada: Registrant, media_type: str
) -> None:
    padding = f"X-Padding: {'x' * len(media_type)}"
    compare(
        service,
        ada,
        head(ada.token, f"Content-Type: {media_type}"),
        head(ada.token, "Content-Type: application/json", padding),
    )


def test_a_suspended_users_content_type(service: RunningService) -> None:
    held, other = service.add_user("held@example.org"), service.add_user("other@example.org")
    service.operator("user", "suspend", held.email, "--reason", "test")
    media_type = "application/json" + " " * 31_000 + "x"
    harmless = head(held.token, "Content-Type: application/json", f"X-Padding: {'x' * 31_000}")
    compare(service, other, head(held.token, f"Content-Type: {media_type}"), harmless)
