"""Store which processes share a registry: announce a process, record heartbeats, delete a process."""

from datetime import datetime, timedelta

from msgspec import Struct

from sublet.db import Tx
from sublet.processes import store
from sublet.processes.model import Process
from sublet.structs import replace

HEARTBEAT_SECONDS = 10.0
"""The interval between two heartbeats."""
GONE_AFTER = timedelta(seconds=35)
"""A process that missed three heartbeats counts as gone."""
FORGOTTEN_AFTER = timedelta(hours=1)
"""How long a process that is gone stays in the table."""
CLOCKS_APART_MAX = timedelta(minutes=1)
"""The maximum difference between a host's clock and the shared clock. A larger difference is logged as an
error.
"""


class Heartbeat(Struct, frozen=True):
    """The result of a heartbeat: the other running processes, and how far this host's clock is ahead of the
    shared clock.

    `is_known` is False if the row of this process was deleted after a long silence. Then the process must
    announce itself again.
    """

    others: tuple[Process, ...]
    clock_ahead: timedelta
    is_known: bool


def is_running(process: Process, now: datetime) -> bool:
    """True if the last heartbeat is recent. It is in the future after the clock was set back."""
    return abs(now - process.seen_at) <= GONE_AFTER


def announce(tx: Tx, process: Process, *, alone: bool = False) -> None:
    """Store that a process runs, since now by the shared clock.

    Pass `alone=True` if the caller holds a lock that excludes other processes. Then all other rows and leases
    are from killed processes: the rows are deleted, and the leases end.
    """
    now = store.find_clock(tx)
    if alone:
        store.delete_all_processes(tx)
        store.end_leases(tx, now)
    # Host and version are only for people, so a long host name must not be an error.
    host, version = process.host[:255], process.version[:32]
    store.insert_process(tx, replace(process, host=host, version=version, started_at=now, seen_at=now))


def forget_processes(tx: Tx) -> None:
    """Delete all processes from a copy of a registry, because none of them runs on the copy.

    Older schemas may lack their table.
    """
    if store.has_processes(tx):
        store.delete_all_processes(tx)


def list_running(tx: Tx) -> list[Process]:
    """Return the running processes in the order of their start, or none if the schema is older than their
    table.
    """
    if not store.has_processes(tx):
        return []
    now = store.find_clock(tx)
    return [each for each in store.list_processes(tx) if is_running(each, now)]


def record_heartbeat(tx: Tx, process_id: str) -> Heartbeat:
    """Store a heartbeat, and delete the processes that were silent for `FORGOTTEN_AFTER`."""
    now = store.find_clock(tx)
    is_known = store.update_seen_at(tx, process_id, now)
    found = store.list_processes(tx)
    if any(abs(now - each.seen_at) > FORGOTTEN_AFTER for each in found):
        store.delete_processes(tx, before=now - FORGOTTEN_AFTER, after=now + FORGOTTEN_AFTER)
    others = tuple(each for each in found if each.id != process_id and is_running(each, now))
    return Heartbeat(others, tx.now - now, is_known)


def leave(tx: Tx, process_id: str, *, may_hold_leases: bool = True) -> None:
    """Delete the row of a process that ends, and end its leases.

    Pass `may_hold_leases=False` for roles that never hold leases. Their database user may have no right to
    read the table of leases.
    """
    if may_hold_leases:
        store.end_leases(tx, store.find_clock(tx), holder=process_id)
    store.delete_process(tx, process_id)
