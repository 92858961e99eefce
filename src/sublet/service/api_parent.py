"""The parent of `sublet api`: owns the listening socket and starts the processes that accept from it."""

import asyncio
import signal
import socket
import sys
import tempfile
from asyncio.subprocess import Process
from contextlib import closing
from itertools import count
from pathlib import Path

import msgspec
import structlog

from sublet.config import Settings
from sublet.http.endpoints import BASE_PATH
from sublet.schema_revision import refuse_unusable_database
from sublet.service.api_part import api_socket, origin_of
from sublet.service.api_process import HandedDown
from sublet.service.dns_part import built_in_addresses
from sublet.service.roles import refuse_sqlite
from sublet.service.supervisor import Child, supervise
from sublet.service.systemd import notify

log = structlog.get_logger()


async def run_api(settings: Settings, stop: asyncio.Event, processes: int, config: Path | None) -> None:
    """Serve the API in `processes` child processes until `stop` is set. SIGHUP replaces them. `config` is the settings file.

    Raises:
        SettingsError: as `refuse_sqlite` and `built_in_addresses`.
        Unavailable: as `refuse_unusable_database` and `api_socket`.
    """
    refuse_sqlite(settings, "api")
    built_in_addresses(settings)
    refuse_unusable_database(settings.database_url)
    replace = asyncio.Event()
    asyncio.get_running_loop().add_signal_handler(signal.SIGHUP, replace.set)
    with (
        closing(api_socket(settings, listens=False)) as listening,
        tempfile.TemporaryDirectory(prefix="sublet-api-") as folder,
    ):
        starter = _Starter(listening, folder, config)

        def ready() -> None:
            log.info("serving", http=origin_of(listening) + BASE_PATH, processes=processes)
            notify("READY=1")

        await supervise(starter.start, processes, stop, replace, ready, listening.close)
    log.info("stopped")


class _Starter:
    """Starts API processes. Each gets the lowest place that no living process has; its metrics files are named by it."""

    def __init__(self, listening: socket.socket, metrics_folder: str, config: Path | None) -> None:
        self._listening = listening
        self._metrics_folder = metrics_folder
        self._config = config
        self._taken: set[int] = set()

    async def start(self) -> Child:
        """Start a process.

        Raises:
            OSError: the system can't start one.
        """
        # The lowest free place, so that the number of metrics files doesn't grow with each restart.
        place = next(number for number in count() if number not in self._taken)
        self._taken.add(place)
        try:
            process, channel = await self._start_at(place)
        except OSError:
            self._taken.discard(place)
            raise
        return Child(process, channel, lambda: self._taken.discard(place))

    async def _start_at(self, place: int) -> tuple[Process, socket.socket]:
        if self._listening.fileno() < 0:
            raise OSError("the socket is closed, because the parent is stopping")
        ours, theirs = socket.socketpair()
        ours.setblocking(False)
        handed = HandedDown(
            listening_fd=self._listening.fileno(),
            channel_fd=theirs.fileno(),
            metrics_folder=self._metrics_folder,
            place=place,
            config=str(self._config) if self._config else None,
        )
        try:
            process = await asyncio.create_subprocess_exec(
                sys.executable,
                "-m",
                "sublet.service.api_process",
                msgspec.json.encode(handed).decode(),
                pass_fds=(handed.listening_fd, handed.channel_fd),
            )
        except OSError:
            ours.close()
            raise
        finally:
            theirs.close()
        return process, ours
