"""A PostgreSQL primary and a synchronous standby, which can be killed, promoted and rebuilt.

Both use fsync.
"""

import shutil
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

from support.free_ports import free_port
from support.postgresql import PostgresqlServer
from support.waiting import wait_until

STANDBY_NAME = "standby"
"""The name of the standby that the primary waits for."""
READY_SECONDS = 180.0
"""How long a copy or a promotion may take on a busy machine."""
_SETTINGS = {
    "shared_buffers": "32MB",
    "wal_receiver_status_interval": "1s",
    "wal_retrieve_retry_interval": "200ms",
}


@dataclass(slots=True)
class PostgresqlPair:
    """A primary and its standby; `take_over` swaps them."""

    primary: PostgresqlServer
    standby: PostgresqlServer
    database: str = "registry"

    @property
    def address(self) -> str:
        """The address of the registry with both hosts; clients connect to the writable one."""
        first, second = sorted((self.primary.port, self.standby.port))
        hosts = f"127.0.0.1:{first},127.0.0.1:{second}"
        return f"postgresql://sublet@{hosts}/{self.database}?target_session_attrs=read-write"

    def begin(self) -> None:
        """Create the primary with an empty registry, and its standby."""
        self.primary.create()
        self.primary.start()
        self.primary.ask(f"CREATE DATABASE {self.database}")
        self.build_standby()

    def build_standby(self) -> None:
        """Copy the primary to the standby, as an operator would; from then on the primary waits for it."""
        shutil.rmtree(self.standby.data, ignore_errors=True)
        source = f"host=127.0.0.1 port={self.primary.port} user=sublet application_name={STANDBY_NAME}"
        slot = ("--create-slot", "--slot", "standby", "--write-recovery-conf", "--checkpoint", "fast")
        self.standby.run("pg_basebackup", "-D", str(self.standby.data), "-d", source, *slot)
        self.standby.start()
        self.wait_for_standby()
        self.primary.ask(f"ALTER SYSTEM SET synchronous_standby_names = '{STANDBY_NAME}'")
        self.primary.ask("SELECT pg_reload_conf()")
        wait_until(lambda: self._standbys("sync_state = 'sync'") == 1, READY_SECONDS)

    def deadlocks(self) -> list[str]:
        """Return the deadlocks in the servers' logs; each costs its transactions a second."""
        logs = [(each.folder / "log").read_text(errors="replace") for each in (self.primary, self.standby)]
        return [part[:2000] for log in logs for part in log.split("ERROR:  deadlock detected")[1:]]

    def wait_for_standby(self) -> None:
        """Wait until the standby follows the primary."""
        wait_until(lambda: self._standbys("state = 'streaming'") == 1, READY_SECONDS)

    def _standbys(self, condition: str) -> int:
        return int(self.primary.ask(f"SELECT count(*) FROM pg_stat_replication WHERE {condition}"))  # noqa: S608

    def take_over(self) -> None:
        """Promote the standby and wait until it is writable. The old primary must have ended."""
        assert self.primary.process is not None
        assert self.primary.process.poll() is not None, "the old primary still runs"
        self.standby.run("pg_ctl", "promote", "-D", str(self.standby.data), "-w")
        self.primary, self.standby = self.standby, self.primary
        wait_until(lambda: not self.primary.ask("SELECT pg_is_in_recovery()"), READY_SECONDS)


@contextmanager
def postgresql_pair(folder: Path) -> Iterator[PostgresqlPair]:
    """Run a primary with an empty registry and a standby that follows it."""
    servers = [PostgresqlServer(folder / name, free_port(), _SETTINGS) for name in ("first", "second")]
    pair = PostgresqlPair(servers[0], servers[1])
    try:
        pair.begin()
        yield pair
    finally:
        for server in servers:
            if server.process is not None:
                server.kill()
