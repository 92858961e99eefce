"""See that a process is still there: its heartbeat."""

from dataclasses import dataclass
from datetime import timedelta

from sublet.db import Tx
from sublet.processes import store
from sublet.processes.model import Process
from sublet.processes.processes import FORGOTTEN_AFTER, is_there


@dataclass(frozen=True, slots=True)
class Seen:
    """What a heartbeat learns: the others that are there, and how far the own clock is ahead of the clock of all.

    `is_known` is False where this process was gone for so long that it was forgotten: it has to announce itself again.
    """

    others: tuple[Process, ...]
    clock_ahead: timedelta
    is_known: bool


def see_process(tx: Tx, process_id: str) -> Seen:
    """Store that a process is there now, and forget those of which nothing was heard for long."""
    now = store.find_clock(tx)
    is_known = store.update_seen(tx, process_id, now)
    found = store.list_processes(tx)
    if any(abs(now - each.seen_at) > FORGOTTEN_AFTER for each in found):
        store.delete_processes(tx, before=now - FORGOTTEN_AFTER, after=now + FORGOTTEN_AFTER)
    others = tuple(each for each in found if each.id != process_id and is_there(each, now))
    return Seen(others, tx.now - now, is_known)
