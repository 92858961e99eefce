"""All SQL that asks which processes are there, beyond what a process does with its own row."""

from dataclasses import dataclass
from datetime import datetime, timedelta

from sqlalchemy import inspect, select

from sublet.db import Tx
from sublet.processes.store import find_clock, processes

RUNNING = timedelta(seconds=30)
"""Who was seen within this time is taken to run: several times the time between two signs of life."""


@dataclass(frozen=True, slots=True)
class RunningProcess:
    """A process of the service: what it does, where, and the schema's revision that its code needs."""

    role: str
    host: str
    pid: int
    version: str
    revision: str
    seen_at: datetime

    def __str__(self) -> str:
        return (
            f"{self.role} on {self.host} (process {self.pid}, sublet {self.version}, schema {self.revision})"
        )


def list_running(tx: Tx) -> list[RunningProcess]:
    """Which processes were seen lately? By host and id. None is known where the schema is older than the table.

    By the clock of all, as what they tell of themselves: this host's may differ.
    """
    if not inspect(tx.connection).has_table(processes.name):
        return []
    query = (
        select(*(processes.c[name] for name in RunningProcess.__slots__))
        .where(processes.c.seen_at > find_clock(tx) - RUNNING)
        .order_by(processes.c.host, processes.c.pid)
    )
    return [RunningProcess(*row) for row in tx.connection.execute(query)]
