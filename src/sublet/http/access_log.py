"""The access log: a line for each request, in the form of all other lines, but written in a fifth of their time.

What composes those takes as long as a fifth of a read. Here are no values but those that are named below; for a terminal, with its colours,
they go the way of all others.
"""

import asyncio
import sys
from collections.abc import Callable
from datetime import UTC, datetime
from typing import NamedTuple

import structlog

from sublet.config import Settings
from sublet.log_lines import json_line, shown
from sublet.secret import without_secrets

log = structlog.get_logger()
LEVELS = ("debug", "info")
"""The settings of `log_level` with which these lines are written."""
TOGETHER_MAX = 12
"""Most lines in one write: some 3,000 octets, which a pipe takes in one piece where several processes write into it."""


class Answered(NamedTuple):
    """What is told of one request; the query string and all headers stay out of it. `error` is the code of a refusal."""

    method: str
    path: str
    endpoint: str
    status: int
    seconds: float
    request_id: str
    user_id: int | None
    error: str | None


def access_log(settings: Settings) -> Callable[[Answered], None]:
    """Return what writes the line of one request to stderr, as `log_level` and `log_format` want it; it is called on an event loop.

    The lines of all requests that the loop answers in one go are written together: to write took half of a line's time.
    """
    if settings.log_level not in LEVELS:
        return lambda _: None
    if settings.log_format == "json":
        return _Together(_json)
    return _write_in_colours if sys.stderr.isatty() else _Together(_text)


class _Together:
    """Writes lines once the event loop has gone round."""

    def __init__(self, compose: Callable[[Answered], str]) -> None:
        self._compose = compose
        self._lines: list[str] = []

    def __call__(self, of: Answered) -> None:
        """Have the line of one request written."""
        if not self._lines:
            asyncio.get_running_loop().call_soon(self._write)
        self._lines.append(without_secrets(self._compose(of)) + "\n")

    def _write(self) -> None:
        lines, self._lines = self._lines, []
        for first in range(0, len(lines), TOGETHER_MAX):  # each in one piece: other threads write there, too
            sys.stderr.write("".join(lines[first : first + TOGETHER_MAX]))


def _text(of: Answered) -> str:
    return (
        f"{_now()} [info     ] request                        duration_ms={_ms(of)} endpoint={of.endpoint} "
        f"error={of.error} method={shown(of.method)} path={shown(of.path)} request_id={shown(of.request_id)} "
        f"status={of.status} user_id={of.user_id}"
    )


def _json(of: Answered) -> str:
    return json_line(_event(of) | {"event": "request", "level": "info", "timestamp": _now()})


def _write_in_colours(of: Answered) -> None:
    log.info("request", **_event(of))


def _event(of: Answered) -> dict[str, object]:
    return {
        "method": of.method,
        "path": of.path,
        "endpoint": of.endpoint,
        "status": of.status,
        "duration_ms": _ms(of),
        "request_id": of.request_id,
        "user_id": of.user_id,
        "error": of.error,
    }


def _ms(of: Answered) -> float:
    return round(of.seconds * 1000, 1)


def _now() -> str:
    return datetime.now(UTC).isoformat().replace("+00:00", "Z")
