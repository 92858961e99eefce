"""How a process logs: readable lines or JSON on stderr, each with the request id where there is one."""

import logging
import sys

import structlog

from sublet.config import Settings


def configure_logs(settings: Settings) -> None:
    """Set up structlog, and let the libraries' warnings through it too."""
    level = logging.getLevelNamesMapping()[settings.log_level.upper()]
    renderer: structlog.types.Processor = (
        structlog.processors.JSONRenderer()
        if settings.log_format == "json"
        # Plain, since the other formatters print local variables, among which are tokens.
        else structlog.dev.ConsoleRenderer(
            colors=sys.stderr.isatty(), exception_formatter=structlog.dev.plain_traceback
        )
    )
    shared: list[structlog.types.Processor] = [
        structlog.contextvars.merge_contextvars,
        structlog.processors.add_log_level,
        structlog.processors.TimeStamper(fmt="iso", utc=True),
    ]
    exceptions: list[structlog.types.Processor] = (
        [structlog.processors.format_exc_info] if settings.log_format == "json" else []
    )
    structlog.configure(
        processors=[*shared, *exceptions, renderer],
        wrapper_class=structlog.make_filtering_bound_logger(level),
        logger_factory=structlog.PrintLoggerFactory(sys.stderr),
        cache_logger_on_first_use=True,
    )
    handler = logging.StreamHandler(sys.stderr)
    handler.setFormatter(
        structlog.stdlib.ProcessorFormatter(foreign_pre_chain=shared, processors=[*exceptions, renderer])
    )
    logging.basicConfig(handlers=[handler], level=logging.WARNING, force=True)
