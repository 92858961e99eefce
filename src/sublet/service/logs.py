"""Logging with structlog: text or JSON lines on stderr, with the id of the request, without secrets.

`sublet.http.dispatch` binds the request id to structlog's context variables. The type of secrets hides their
text (`sublet.secret`). Secrets inside other texts, such as a path or an error of a library, are removed from
the finished line.
"""

import logging
import sys
from typing import Any

import structlog
from structlog.types import EventDict, Processor

from sublet.config import Settings
from sublet.http.request_log import quoted
from sublet.secret import without_secrets


def configure_logs(settings: Settings) -> None:
    """Configure structlog, and send the warnings of libraries through it."""
    level = logging.getLevelNamesMapping()[settings.log_level.upper()]
    shared: list[Processor] = [
        structlog.contextvars.merge_contextvars,
        remove_empty_fields,
        structlog.processors.add_log_level,
        structlog.processors.TimeStamper(fmt="iso", utc=True),
    ]
    last: list[Processor] = [*_renderers(settings.log_format), remove_secrets]
    structlog.configure(
        processors=[*shared, *last],
        wrapper_class=structlog.make_filtering_bound_logger(level),
        logger_factory=structlog.WriteLoggerFactory(sys.stderr),
        cache_logger_on_first_use=True,
    )
    handler = logging.StreamHandler(sys.stderr)
    handler.setFormatter(structlog.stdlib.ProcessorFormatter(foreign_pre_chain=shared, processors=last))
    logging.basicConfig(handlers=[handler], level=logging.WARNING, force=True)


def _renderers(log_format: str) -> list[Processor]:
    if log_format == "json":
        return [structlog.processors.format_exc_info, structlog.processors.JSONRenderer()]
    if sys.stderr.isatty():
        # `repr` escapes control characters, which a client can send. Other formatters of exceptions print
        # local variables, which may be tokens.
        plain = structlog.dev.plain_traceback
        return [structlog.dev.ConsoleRenderer(repr_native_str=True, exception_formatter=plain)]
    return [structlog.processors.format_exc_info, render_text]


def remove_empty_fields(_logger: object, _method: str, event: EventDict) -> EventDict:
    """Return an event without the fields that are None."""
    return {name: value for name, value in event.items() if value is not None}


def render_text(_logger: object, _method: str, event: EventDict) -> str:
    """Return the line of an event, with its trace below if it has one.

    structlog's own text renderer doesn't escape control characters, which a client can send.
    """
    head = f"{event.pop('timestamp', '')} [{event.pop('level', ''):<9}] {event.pop('event', ''):<30}"
    trace = [event.pop(name) for name in ("exception", "stack") if name in event]
    line = " ".join([head, *(f"{name}={quoted(event[name])}" for name in sorted(event))])
    return "\n".join([line, *trace])


def remove_secrets(_logger: object, _method: str, line: Any) -> Any:
    """Return a finished line without anything that looks like a secret; the last processor of structlog."""
    return without_secrets(line)
