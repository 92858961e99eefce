"""A child process of `sublet api`. Only the parent starts it, as `python -m sublet.service.api_process`.

The process shuts down gracefully at SIGTERM, and when its channel to the parent closes, so that no child
outlives a killed parent.
"""

import asyncio
import signal
import socket
import sys
from pathlib import Path

import msgspec
import structlog

from sublet.config import Settings, SettingsError, load_settings
from sublet.errors import UNAVAILABLE, USAGE, Refusal
from sublet.metrics import Metrics, share_metrics
from sublet.service.event_loop import run_event_loop
from sublet.service.logs import configure_logs
from sublet.service.roles import run_api_process

READY = b"ready"
"""The message that a child sends over its channel once it serves. The parent sends no messages; the channel
closes when the parent ends.
"""
log = structlog.get_logger()


class ChildArguments(msgspec.Struct, frozen=True, kw_only=True):
    """The arguments of a child: two file descriptors, the slot of its metrics files, and the settings file.

    Each child reads the settings file, so that SIGHUP applies changed settings.
    """

    listening_fd: int
    channel_fd: int
    metrics_folder: str
    slot: int
    config: str | None


async def _serve(settings: Settings, arguments: ChildArguments) -> None:
    channel = socket.socket(fileno=arguments.channel_fd)
    channel.setblocking(False)
    listening = socket.socket(fileno=arguments.listening_fd)
    loop, stop = asyncio.get_running_loop(), asyncio.Event()
    for number in (signal.SIGTERM, signal.SIGINT):
        loop.add_signal_handler(number, stop.set)
    # A closing terminal sends SIGHUP to all processes; only the parent handles it.
    loop.add_signal_handler(signal.SIGHUP, lambda: None)

    def parent_ended() -> None:
        loop.remove_reader(channel)
        stop.set()

    loop.add_reader(channel, parent_ended)
    metrics = Metrics(Path(arguments.metrics_folder))
    await run_api_process(settings, listening, stop, metrics=metrics, on_ready=lambda: _report_ready(channel))


def _report_ready(channel: socket.socket) -> None:
    try:
        channel.send(READY)
    except OSError:
        log.warning("api_process_alone")  # the parent has ended; `parent_ended` runs in a moment


def main() -> None:
    """Serve with the `ChildArguments` (JSON) in the first argument. Exit with the codes of a command."""
    arguments = msgspec.json.decode(sys.argv[1], type=ChildArguments)
    share_metrics(Path(arguments.metrics_folder), arguments.slot)
    try:
        settings = load_settings(Path(arguments.config) if arguments.config else None)
        configure_logs(settings)
        run_event_loop(_serve(settings, arguments))
    except (SettingsError, Refusal) as error:
        log.error("api_process_refused", reason=str(error))  # noqa: TRY400 - the trace adds nothing to the message
        sys.exit(USAGE if isinstance(error, SettingsError) else UNAVAILABLE)


if __name__ == "__main__":
    main()
