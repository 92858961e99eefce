"""The parent of `sublet api`: owns the listening socket and starts the processes that accept from it."""

import asyncio
import signal
import socket
import sys
import tempfile
from contextlib import closing
from functools import partial
from itertools import count
from pathlib import Path

import msgspec
import structlog

from sublet.config import Settings
from sublet.operations.operation import BASE_PATH
from sublet.schema_revision import refuse_unusable_database
from sublet.service.api_part import api_socket, origin_of
from sublet.service.api_process import ChildArguments
from sublet.service.dns_part import built_in_addresses
from sublet.service.roles import refuse_sqlite
from sublet.service.supervisor import Child, supervise
from sublet.service.systemd import notify

log = structlog.get_logger()


async def run_api(settings: Settings, stop: asyncio.Event, processes: int, config: Path | None) -> None:
    """Serve the API in `processes` child processes until `stop` is set.

    SIGHUP replaces them. `config` is the settings file.

    Raises:
        SettingsError: raised by `refuse_sqlite` or `built_in_addresses`.
        Unavailable: raised by `refuse_unusable_database` or `api_socket`.
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
        start = partial(_start_child, listening, folder, config, set())

        def ready() -> None:
            log.info("serving", http=origin_of(listening) + BASE_PATH, processes=processes)
            notify("READY=1")

        await supervise(start, processes, stop, replace, ready, listening.close)
    log.info("stopped")


async def _start_child(
    listening: socket.socket, metrics_folder: str, config: Path | None, slots: set[int]
) -> Child:
    """Start a child process in the lowest slot that isn't in `slots`, and add the slot to `slots` until the
    process has exited.

    The metrics files of a process are named by its slot, so their number doesn't grow with each restart.

    Raises:
        OSError: the system can't start a process.
    """
    if listening.fileno() < 0:
        raise OSError("the socket is closed, because the parent is stopping")
    parent_end, child_end = socket.socketpair()
    parent_end.setblocking(False)
    slot = next(number for number in count() if number not in slots)
    arguments = ChildArguments(
        listening_fd=listening.fileno(),
        channel_fd=child_end.fileno(),
        metrics_folder=metrics_folder,
        slot=slot,
        config=str(config) if config else None,
    )
    command = [sys.executable, "-m", "sublet.service.api_process", msgspec.json.encode(arguments).decode()]
    slots.add(slot)
    try:
        with child_end:
            process = await asyncio.create_subprocess_exec(
                *command, pass_fds=(arguments.listening_fd, arguments.channel_fd)
            )
    except OSError:
        parent_end.close()
        slots.discard(slot)
        raise
    return Child(process, parent_end, lambda: slots.discard(slot))
