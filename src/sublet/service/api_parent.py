"""The parent of `sublet api`: owns the listening socket, starts the processes that accept from it, restarts
those that exit, and replaces all without refusing a client.

The parent accepts no connection. It keeps the listening socket open while processes are replaced, so clients
wait in the socket's queue. At its end the parent closes the socket before the processes end; otherwise
clients that connect meanwhile would get no answer.
"""

import asyncio
import signal
import socket
import sys
import tempfile
from asyncio.subprocess import Process
from collections.abc import Awaitable, Callable
from contextlib import closing, suppress
from functools import partial
from itertools import count
from pathlib import Path

import msgspec
import structlog
from msgspec import Struct

from sublet.config import Settings
from sublet.operations.operation import BASE_PATH
from sublet.schema_revision import refuse_unusable_database
from sublet.service.api_part import api_socket, origin_of
from sublet.service.api_process import READY, ChildArguments
from sublet.service.dns_part import built_in_addresses
from sublet.service.roles import refuse_sqlite
from sublet.service.systemd import notify

READY_SECONDS = 60.0
"""The timeout for new processes to become ready. After the timeout the old processes stay."""
PAUSE_SECONDS = 1.0
"""How long the parent waits before it restarts a process that exited."""
END_SECONDS = 30.0
"""The time from SIGTERM to SIGKILL, which is longer than a process takes to drain."""

log = structlog.get_logger()


class Child(Struct, frozen=True):
    """A child process, and the parent's end of the channel to it. `forget` is called after it has exited."""

    process: Process
    channel: socket.socket
    forget: Callable[[], None]

    async def is_ready(self) -> bool:
        """Wait until the process is ready. Return False if it exits before."""
        with suppress(ConnectionError):
            return await asyncio.get_running_loop().sock_recv(self.channel, len(READY)) == READY
        return False


StartChild = Callable[[], Awaitable[Child]]


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


class Generation:
    """Processes that were started together. Restarts those that exit, until `end` is called.

    `ready` is set once each process has been ready, `failed` if one exits before that.
    """

    def __init__(self, start: StartChild, count: int) -> None:
        self._start = start
        self._unready = set(range(count))
        self._ending = asyncio.Event()
        self.ready = asyncio.Event()
        self.failed = asyncio.Event()
        self._tasks = [asyncio.create_task(self._keep_running(number)) for number in range(count)]

    async def end(self) -> None:
        """Drain and end all processes."""
        self._ending.set()
        await asyncio.gather(*self._tasks)

    async def _keep_running(self, number: int) -> None:
        """Start a process, and restart it when it exits."""
        while not self._ending.is_set():
            try:
                child = await self._start()
            except OSError as error:
                log.error("api_process_not_started", reason=str(error))  # noqa: TRY400 - the system's message says enough
                pid, code = None, None
            else:
                pid, code = child.process.pid, await self._watch(number, child)
            if self._ending.is_set():
                return
            if number in self._unready:
                self.failed.set()
            log.error("api_process_died", pid=pid, exit_code=code, again_in_seconds=PAUSE_SECONDS)
            with suppress(TimeoutError):
                await asyncio.wait_for(self._ending.wait(), PAUSE_SECONDS)

    async def _watch(self, number: int, child: Child) -> int:
        """Wait until a process exits, or end it once `end` is called; return its exit code."""
        exited = asyncio.create_task(child.process.wait())
        ending = asyncio.create_task(self._ending.wait())
        ready = asyncio.create_task(child.is_ready())
        try:
            await asyncio.wait({exited, ending, ready}, return_when=asyncio.FIRST_COMPLETED)
            if ready.done() and ready.result():
                self._unready.discard(number)
                if not self._unready:
                    self.ready.set()
            await asyncio.wait({exited, ending}, return_when=asyncio.FIRST_COMPLETED)
            if not exited.done():
                await _end(child.process, exited)
            return exited.result()
        finally:
            for task in (ending, ready):
                task.cancel()
            await asyncio.gather(ending, ready, return_exceptions=True)
            child.channel.close()
            child.forget()


async def _end(process: Process, exited: "asyncio.Task[int]") -> None:
    """Send SIGTERM, and SIGKILL if the process still runs after `END_SECONDS`."""
    with suppress(ProcessLookupError):
        process.terminate()
    done, _ = await asyncio.wait({exited}, timeout=END_SECONDS)
    if not done:
        log.error("api_process_killed", pid=process.pid)
        with suppress(ProcessLookupError):
            process.kill()
        await exited


async def supervise(
    start: StartChild,
    count: int,
    stop: asyncio.Event,
    replace: asyncio.Event,
    on_ready: Callable[[], None],
    on_stopping: Callable[[], None] = lambda: None,
) -> None:
    """Keep `count` processes running until `stop` is set, then end all.

    Calls `on_ready` once all are ready for the first time.

    Calls `on_stopping` before the processes end, so that the parent can close the listening socket.

    Each time `replace` is set, `count` new processes are started. Once all are ready, the old ones end. If a
    new one exits before that, or they take longer than `READY_SECONDS`, the new ones end and the old ones
    stay.
    """
    current = Generation(start, count)
    endings: set[asyncio.Task[None]] = set()
    try:
        await _first_of(stop, current.ready)
        if current.ready.is_set():
            on_ready()
        while not stop.is_set():
            await _first_of(stop, replace)
            if stop.is_set():
                break
            replace.clear()
            log.info("api_processes_replaced_soon", processes=count)
            new = Generation(start, count)
            await _first_of(stop, new.ready, new.failed, timeout_seconds=READY_SECONDS)
            if new.ready.is_set():
                current, old = new, current
                log.info("api_processes_replaced", processes=count)
            else:
                old = new
                log.error("api_processes_not_replaced", processes=count)
            ending = asyncio.create_task(old.end())
            endings.add(ending)
            ending.add_done_callback(endings.discard)
    finally:
        on_stopping()
        await asyncio.gather(current.end(), *endings)


async def _first_of(*events: asyncio.Event, timeout_seconds: float | None = None) -> None:
    """Wait until one of the events is set, or for `timeout_seconds`."""
    waiting = [asyncio.create_task(event.wait()) for event in events]
    await asyncio.wait(waiting, timeout=timeout_seconds, return_when=asyncio.FIRST_COMPLETED)
    for task in waiting:
        task.cancel()
    await asyncio.gather(*waiting, return_exceptions=True)
