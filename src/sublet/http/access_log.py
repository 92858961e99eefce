"""The access log: a line for each request, in the form of all other lines, but written in a fifth of their time.

What composes those takes as long as a fifth of a read. Here are no values but those that are named below; for a terminal, with its colours,
they go the way of all others.
"""

import sys
from collections.abc import Callable, Sequence
from datetime import datetime
from functools import partial

import msgspec
import structlog

from sublet.config import Settings
from sublet.db import utc_now
from sublet.log_lines import json_line, shown
from sublet.secret import without_secrets

log = structlog.get_logger()
LEVELS = ("debug", "info")
"""The settings of `log_level` with which these lines are written."""
TOGETHER_MAX = 12
"""Most lines in one write: some 3,000 octets, which a pipe takes in one piece where several processes write into it."""


class Answered(msgspec.Struct, frozen=True):
    """What is told of one request once it is answered, as its line has it; the query string and all headers stay out of it.

    `error` is the code of a refusal. A Struct, since it is written in a third of the time of a dict.
    """

    method: str
    path: str
    endpoint: str
    status: int
    duration_ms: float
    request_id: str
    user_id: int | None
    error: str | None
    event: str = "request"
    level: str = "info"
    timestamp: datetime = msgspec.field(default_factory=utc_now)


def access_log(settings: Settings) -> Callable[[Sequence[Answered]], None]:
    """Return what writes the lines of requests to stderr, each its own, as `log_level` and `log_format` want it."""
    if settings.log_level not in LEVELS:
        return lambda _: None
    if settings.log_format == "json":
        return partial(_write, json_line)
    return _write_in_colours if sys.stderr.isatty() else partial(_write, _text)


def _write(compose: Callable[[Answered], str], answered: Sequence[Answered]) -> None:
    lines = [without_secrets(compose(each)) + "\n" for each in answered]
    for first in range(0, len(lines), TOGETHER_MAX):  # each in one piece: other threads write there, too
        sys.stderr.write("".join(lines[first : first + TOGETHER_MAX]))


def _text(of: Answered) -> str:
    at = of.timestamp.isoformat().replace("+00:00", "Z")
    return (
        f"{at} [info     ] request                        duration_ms={of.duration_ms} endpoint={of.endpoint} "
        f"error={of.error} method={shown(of.method)} path={shown(of.path)} request_id={shown(of.request_id)} "
        f"status={of.status} user_id={of.user_id}"
    )


def _write_in_colours(answered: Sequence[Answered]) -> None:
    for each in answered:
        values = msgspec.structs.asdict(each)
        del values["level"], values["timestamp"]
        log.info(**values)
