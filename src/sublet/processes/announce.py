"""Announce a process: from now on it is one of those that share the registry."""

from dataclasses import dataclass

from sublet.db import Tx
from sublet.processes import store
from sublet.processes.model import Process


@dataclass(frozen=True, slots=True)
class Announce:
    """Who a process is, as in `Process`."""

    id: str
    role: str
    host: str
    pid: int
    version: str
    revision: str


def announce(tx: Tx, command: Announce, *, alone: bool = False) -> None:
    """Store that a process is there since now.

    `alone` says that a lock keeps all others away: what one that was killed has left behind is over then, its leases too.
    """
    now = store.find_clock(tx)
    if alone:
        for each in store.list_processes(tx):
            store.delete_process(tx, each.id)
        store.end_leases(tx, now)
    # It is shown to people, and must not fail for the length of a host's name.
    host, version = command.host[:255], command.version[:32]
    process = Process(command.id, command.role, host, command.pid, version, command.revision, now, now)
    store.insert_process(tx, process)
