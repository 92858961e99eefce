"""The log line of each request, in the formats of all lines (`service/logs.py`).

It is written directly, because structlog takes longer.
"""

import json
import logging
import re
import sys
from collections.abc import Callable
from datetime import UTC, datetime
from typing import NamedTuple

import structlog

from sublet.config import Settings
from sublet.secret import without_secrets

_WORD = re.compile(r"[!#-&(-<>-~]+")
"""Printable ASCII without blanks, quotes and `=`."""


class LoggedRequest(NamedTuple):
    """An answered request.

    The client chose method and path; the service made the other fields. Fields that are None are left out.
    """

    method: str
    path: str
    endpoint: str
    status: int
    duration_ms: float
    user_id: int | None
    error: str | None
    request_id: str


LogRequest = Callable[[LoggedRequest], None]


def choose_request_log(settings: Settings) -> LogRequest:
    """Return the function that writes the line of a request at the level info, by the settings of the log."""
    if logging.getLevelNamesMapping()[settings.log_level.upper()] > logging.INFO:
        return lambda _: None
    if settings.log_format == "json":
        return _write_json
    return _write_in_colors if sys.stderr.isatty() else _write_text


def quoted(value: object) -> str:
    """Return a value as text, quoted unless it is one word of printable ASCII."""
    return value if isinstance(value, str) and _WORD.fullmatch(value) else repr(value)


def _write_text(request: LoggedRequest) -> None:
    method, path, endpoint, status, duration_ms, user_id, error, request_id = request
    sys.stderr.write(
        f"{_now()} [info     ] request                        duration_ms={duration_ms} endpoint={endpoint}"
        f"{'' if error is None else f' error={error}'} method={quoted(method)} "
        f"path={quoted(without_secrets(path))}"
        f" request_id={request_id} status={status}{'' if user_id is None else f' user_id={user_id}'}\n"
    )


def _write_json(request: LoggedRequest) -> None:
    method, path, endpoint, status, duration_ms, user_id, error, request_id = request
    user = "" if user_id is None else f'"user_id": {user_id}, '
    refused = "" if error is None else f'"error": "{error}", '
    sys.stderr.write(
        f'{{"method": {json.dumps(method)}, "path": {json.dumps(without_secrets(path))}, '
        f'"endpoint": "{endpoint}", "status": {status}, "duration_ms": {duration_ms}, {user}{refused}'
        f'"request_id": "{request_id}", "event": "request", "level": "info", "timestamp": "{_now()}"}}\n'
    )


def _write_in_colors(request: LoggedRequest) -> None:
    structlog.get_logger().info("request", **request._asdict())


def _now() -> str:
    return datetime.now(UTC).isoformat(timespec="microseconds").removesuffix("+00:00") + "Z"
