"""Types for the processes that share a registry, and for the leases they hold."""

from datetime import datetime

from msgspec import Struct


class Process(Struct, frozen=True):
    """A process of the service.

    `role` is `serve`, `api`, `worker` or `dns`. `revision` is the revision of the schema that the process
    needs. `seen_at` is the time of the last heartbeat. Times are by the shared clock (`store.find_clock`).
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


class Lease(Struct, frozen=True):
    """The exclusive right `name` of the process `holder`, until `expires_at` by the shared clock.

    `epoch` counts the holders. A process compares the epoch in each writing transaction, and so notices that
    another process took the lease. The clock only decides when another process may take the lease.
    """

    name: str
    holder: str
    epoch: int
    expires_at: datetime


class LeaseLost(Exception):  # noqa: N818 - named for what the caller sees
    """Another process has taken the lease, so the former holder may write nothing."""
