"""A child process of `sublet api`. Only the parent starts it, as `python -m sublet.service.api_process`.

It shuts down gracefully at SIGTERM, and when its channel to the parent closes: so no child outlives a parent that was killed.
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
from sublet.http.metrics import Metrics, share_counts
from sublet.service.event_loop import run_event_loop
from sublet.service.logs import configure_logs
from sublet.service.roles import run_api_process
from sublet.service.supervisor import READY

log = structlog.get_logger()


class HandedDown(msgspec.Struct, frozen=True, kw_only=True):
    """What the parent passes to a child: two file descriptors, the child's place in the metrics folder, and the settings file.

    Each child reads the settings itself, so that a replacement uses changed settings.
    """

    listening_fd: int
    channel_fd: int
    metrics_folder: str
    place: int
    config: str | None


async def _serve(settings: Settings, handed: HandedDown) -> None:
    channel = socket.socket(fileno=handed.channel_fd)
    channel.setblocking(False)
    listening = socket.socket(fileno=handed.listening_fd)
    loop, stop = asyncio.get_running_loop(), asyncio.Event()
    for number in (signal.SIGTERM, signal.SIGINT):
        loop.add_signal_handler(number, stop.set)
    # A closing terminal sends SIGHUP to all processes; only the parent handles it.
    loop.add_signal_handler(signal.SIGHUP, lambda: None)

    def parent_ended() -> None:
        loop.remove_reader(channel)
        stop.set()

    loop.add_reader(channel, parent_ended)
    metrics = Metrics(Path(handed.metrics_folder))
    await run_api_process(settings, listening, stop, metrics=metrics, on_ready=lambda: _tell(channel))


def _tell(channel: socket.socket) -> None:
    try:
        channel.send(READY)
    except OSError:
        log.warning("api_process_alone")  # the parent has ended; `parent_ended` runs in a moment


def main() -> None:
    """Serve as `HandedDown` in the first argument says; exit with the codes of a command."""
    handed = msgspec.json.decode(sys.argv[1], type=HandedDown)
    share_counts(Path(handed.metrics_folder), handed.place)
    try:
        settings = load_settings(Path(handed.config) if handed.config else None)
        configure_logs(settings)
        run_event_loop(_serve(settings, handed))
    except (SettingsError, Refusal) as error:
        log.error("api_process_refused", reason=str(error))  # noqa: TRY400 - the trace adds nothing to the message
        sys.exit(USAGE if isinstance(error, SettingsError) else UNAVAILABLE)


if __name__ == "__main__":
    main()
