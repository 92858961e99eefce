"""Types for the processes that share a registry, and for the leases they hold."""

from dataclasses import dataclass
from datetime import datetime


@dataclass(frozen=True, slots=True)
class Process:
    """A process of the service: its role (`serve`, `api`, `worker` or `dns`), its host, and the revisions of its code and schema.

    `started_at` and `seen_at`, the time of its last heartbeat, are by the shared clock (`store.find_clock`).
    """

    id: str
    role: str
    host: str
    pid: int
    version: str
    revision: str
    started_at: datetime
    seen_at: datetime

    def __str__(self) -> str:
        return (
            f"{self.role} on {self.host} (process {self.pid}, sublet {self.version}, schema {self.revision})"
        )


@dataclass(frozen=True, slots=True)
class Lease:
    """The exclusive right `name` of the process `holder`, until `expires_at` by the shared clock.

    `epoch` counts the holders. A process compares it in each writing transaction, and so notices that it lost the lease. The clock only
    decides when another process may take the lease.
    """

    name: str
    holder: str
    epoch: int
    expires_at: datetime


class LeaseLost(Exception):  # noqa: N818 - named for what the caller sees
    """Another process has taken the lease. Nothing may be written under it any more."""
