"""Logging: text or JSON lines on stderr, with the request id if there is one, without secrets.

`sublet.http.access_log` writes the line of each request. Secrets have a type that shows nothing (`sublet.secret`). Secrets inside
other texts (a path, an error of a library, a trace) are removed from the finished line, as the last step.
"""

import logging
import sys
from typing import Any

import structlog

from sublet.config import Settings
from sublet.log_lines import json_line, shown, with_request_id
from sublet.secret import without_secrets


class _Lines:
    """Renders text lines like structlog's console renderer, in a tenth of its time. Events with a trace go to that renderer."""

    def __init__(self, whole: structlog.types.Processor) -> None:
        self._whole = whole

    def __call__(self, logger: Any, method: str, event: structlog.types.EventDict) -> Any:
        """Return the line of an event."""
        if "exc_info" in event or "exception" in event or "stack" in event:
            return self._whole(logger, method, event)
        head = f"{event.pop('timestamp', '')} [{event.pop('level', ''):<9}] {event.pop('event', ''):<30}"
        return " ".join([head, *(f"{key}={shown(event[key])}" for key in sorted(event))])


def configure_logs(settings: Settings) -> None:
    """Configure structlog, and send the warnings of libraries through it."""
    level = logging.getLevelNamesMapping()[settings.log_level.upper()]
    renderer: structlog.types.Processor = (
        structlog.processors.JSONRenderer(serializer=json_line)
        if settings.log_format == "json"
        else _text_renderer()
    )
    shared: list[structlog.types.Processor] = [
        with_request_id,
        structlog.processors.add_log_level,
        structlog.processors.TimeStamper(fmt="iso", utc=True),
    ]
    exceptions: list[structlog.types.Processor] = (
        [structlog.processors.format_exc_info] if settings.log_format == "json" else []
    )
    structlog.configure(
        processors=[*shared, *exceptions, renderer, sieve],
        wrapper_class=structlog.make_filtering_bound_logger(level),
        logger_factory=structlog.WriteLoggerFactory(sys.stderr),
        cache_logger_on_first_use=True,
    )
    handler = logging.StreamHandler(sys.stderr)
    handler.setFormatter(
        structlog.stdlib.ProcessorFormatter(
            foreign_pre_chain=shared, processors=[*exceptions, renderer, sieve]
        )
    )
    logging.basicConfig(handlers=[handler], level=logging.WARNING, force=True)


def _text_renderer() -> structlog.types.Processor:
    colors = sys.stderr.isatty()
    # Plain, since the other formatters print local variables, among which are tokens.
    whole = structlog.dev.ConsoleRenderer(colors=colors, exception_formatter=structlog.dev.plain_traceback)
    return whole if colors else _Lines(whole)


def sieve(_logger: object, _method: str, line: Any) -> Any:
    """Return a rendered line without anything that looks like a secret; the last processor of structlog."""
    return without_secrets(line)
