"""Announce a process of the service while it runs, and hear of the others."""

import asyncio
import os
import socket
import uuid
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass
from datetime import timedelta
from importlib import metadata

import structlog

from sublet.db import Database, Tx
from sublet.errors import Unavailable
from sublet.processes.model import Process
from sublet.processes.processes import (
    CLOCKS_APART_MAX,
    SEEN_EVERY_SECONDS,
    Announce,
    announce,
    leave,
    see_process,
)
from sublet.schema_revision import hold_schema, needed_revision

WORKING = frozenset({"serve", "worker"})
"""The roles of those that publish, sweep and send mail: they alone hold leases."""
LEAVE_SECONDS = 3.0
"""How long the end of a process waits for the database to take note of it."""
log = structlog.get_logger()


@dataclass(slots=True)
class Presence:
    """That a process is there: its id, by which it holds leases; the others that were there at the last heartbeat."""

    id: str
    others: tuple[Process, ...] = ()
    clock_ahead: timedelta = timedelta()

    def is_only_worker(self) -> bool:
        """Tell whether no other process was seen that could do this one's work."""
        return all(each.role not in WORKING for each in self.others)


@asynccontextmanager
async def announced(db: Database, role: str, *, alone: bool = False) -> AsyncIterator[Presence]:
    """Announce this process as `serve`, `api`, `worker` or `dns` until the block ends; what it held is free then.

    `alone` says that a lock keeps all others away, as with SQLite: what was held by one that was killed is free at once.

    Raises:
        Unavailable: the database can't be written; as `hold_schema`, or an upgrade under way takes too long.
    """
    version = metadata.version("sublet")
    command = Announce(str(uuid.uuid4()), role, socket.gethostname(), os.getpid(), version, needed_revision())
    presence = Presence(command.id)
    await db.write(_announce_on_schema, command, alone=alone)
    await _see(db, presence, command)
    seeing = asyncio.create_task(_see_again(db, presence, command))
    try:
        yield presence
    finally:
        seeing.cancel()
        await asyncio.gather(seeing, return_exceptions=True)
        await _leave(db, command)


def _announce_on_schema(tx: Tx, command: Announce, *, alone: bool) -> None:
    """Announce a process so that no upgrade overlooks it: one that comes sees it, one that was under way has ended."""
    hold_schema(tx)
    announce(tx, command, alone=alone)


async def _leave(db: Database, command: Announce) -> None:
    """Take note of the end, if that can be done: else its leases run out, and the others forget it."""
    try:
        async with asyncio.timeout(LEAVE_SECONDS):
            await db.write(leave, command.id, may_hold=command.role in WORKING)
    except (Unavailable, TimeoutError):
        pass
    except Exception:
        log.exception("leave_fault")


async def _see_again(db: Database, presence: Presence, command: Announce) -> None:
    while True:
        await asyncio.sleep(SEEN_EVERY_SECONDS)
        try:
            await _see(db, presence, command)
        except Unavailable:
            pass  # told by the database already; the next heartbeat tries again
        except Exception:
            log.exception("heartbeat_fault")


async def _see(db: Database, presence: Presence, command: Announce) -> None:
    seen = await db.write(see_process, presence.id)
    if not seen.is_known:
        await db.write(announce, command)
    was_apart = abs(presence.clock_ahead) > CLOCKS_APART_MAX
    presence.others, presence.clock_ahead = seen.others, seen.clock_ahead
    if abs(seen.clock_ahead) > CLOCKS_APART_MAX and not was_apart:
        log.error("clock_differs", ahead_seconds=round(seen.clock_ahead.total_seconds()))
