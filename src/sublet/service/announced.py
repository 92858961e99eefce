"""Announce a process while it runs, send heartbeats, and keep a list of the other processes."""

import asyncio
import os
import socket
import uuid
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from datetime import timedelta
from importlib import metadata

import structlog
from msgspec import Struct

from sublet.db import Database, Tx
from sublet.errors import Unavailable
from sublet.processes.model import Process
from sublet.processes.processes import (
    CLOCKS_APART_MAX,
    HEARTBEAT_SECONDS,
    announce,
    leave,
    record_heartbeat,
)
from sublet.schema_revision import hold_schema, needed_revision
from sublet.service.event_loop import run_in_background

WORKER_ROLES = frozenset({"serve", "worker"})
"""The roles that publish, sweep and send mail. Only they hold leases."""
LEAVE_SECONDS = 3.0
"""How long a process that ends waits until the database has stored its end."""
log = structlog.get_logger()


class Presence(Struct):
    """The id under which this process holds leases, and the other processes as of the last heartbeat."""

    id: str
    others: tuple[Process, ...] = ()
    clock_ahead: timedelta = timedelta()

    def is_only_worker(self) -> bool:
        """True if no other worker ran at the last heartbeat."""
        return all(each.role not in WORKER_ROLES for each in self.others)


@asynccontextmanager
async def announced(db: Database, role: str, *, alone: bool = False) -> AsyncIterator[Presence]:
    """Announce this process as `serve`, `api`, `worker` or `dns` until the block ends, which also ends its
    leases.

    `alone` says that a lock excludes all other processes, as on SQLite. The leases of a killed process then
    end at once.

    Raises:
        Unavailable: this code can't work with the schema, the database can't be written, or a running upgrade
            takes too long.
    """
    now = db.now()
    process = Process(
        id=str(uuid.uuid4()),
        role=role,
        host=socket.gethostname(),
        pid=os.getpid(),
        version=metadata.version("sublet"),
        revision=needed_revision(),
        started_at=now,
        seen_at=now,
    )
    presence = Presence(process.id)
    await db.write(_announce_on_schema, process, alone=alone)
    await _send_heartbeat(db, presence, process)
    try:
        async with run_in_background(_send_heartbeats(db, presence, process)):
            yield presence
    finally:
        await _leave(db, process)


def _announce_on_schema(tx: Tx, process: Process, *, alone: bool) -> None:
    """Announce a process after a running upgrade has ended. Every later upgrade sees the process."""
    hold_schema(tx)
    announce(tx, process, alone=alone)


async def _leave(db: Database, process: Process) -> None:
    """Delete the process and end its leases. Best effort: leases also expire."""
    try:
        async with asyncio.timeout(LEAVE_SECONDS):
            await db.write(leave, process.id, may_hold_leases=process.role in WORKER_ROLES)
    except (Unavailable, TimeoutError):
        pass
    except Exception:
        log.exception("leave_fault")


async def _send_heartbeats(db: Database, presence: Presence, process: Process) -> None:
    while True:
        await asyncio.sleep(HEARTBEAT_SECONDS)
        try:
            await _send_heartbeat(db, presence, process)
        except Unavailable:
            pass  # already logged; the next heartbeat tries again
        except Exception:
            log.exception("heartbeat_fault")


async def _send_heartbeat(db: Database, presence: Presence, process: Process) -> None:
    heartbeat = await db.write(record_heartbeat, presence.id)
    if not heartbeat.is_known:
        await db.write(announce, process)
    was_apart = abs(presence.clock_ahead) > CLOCKS_APART_MAX
    presence.others, presence.clock_ahead = heartbeat.others, heartbeat.clock_ahead
    if abs(heartbeat.clock_ahead) > CLOCKS_APART_MAX and not was_apart:
        log.error("clock_differs", ahead_seconds=round(heartbeat.clock_ahead.total_seconds()))
