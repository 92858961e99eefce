"""The processes that share a registry, and what one of them does alone for a while: frozen types."""

from dataclasses import dataclass
from datetime import datetime


@dataclass(frozen=True, slots=True)
class Process:
    """A process of the service: what it is for (`serve`, `api`, `worker`, `dns`), where it runs, which code and schema it is of.

    `seen_at` is when it last said that it is there, by the clock of all (`store.find_clock`), as is `started_at`.
    """

    id: str
    role: str
    host: str
    pid: int
    version: str
    revision: str
    started_at: datetime
    seen_at: datetime


@dataclass(frozen=True, slots=True)
class Lease:
    """That a process, its `holder`, does alone what `name` says, until an instant of the clock of all.

    `epoch` counts the holders. Whoever has lost a lease is told so by the epoch inside the transaction in which it would write, and
    not by any clock: the instant only says when others may take it.
    """

    name: str
    holder: str
    epoch: int
    expires_at: datetime


class LeaseLost(Exception):  # noqa: N818 - named for what the caller sees
    """Another process does by now what a lease was for: nothing may be written under it any more."""
