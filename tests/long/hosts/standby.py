"""A PostgreSQL primary with a synchronous standby, in temporary folders: killed, taken over from, and built anew.

Waiting for the disk is on here, as it is where it counts. Both listen on loopback ports; `address` names both.
"""

import os
import shutil
import signal
import subprocess
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import psycopg

from support.postgresql import find_postgresql, hand_over
from support.serve_process import free_address, wait_until

STANDBY_NAME = "standby"
"""By which name the primary knows the standby that it waits for."""
READY_SECONDS = 180.0
"""How long a start, a copy or a promotion may take on a machine that others load."""
_SETTINGS = ("shared_buffers=32MB", "wal_receiver_status_interval=1s", "wal_retrieve_retry_interval=200ms")


@dataclass(slots=True)
class PostgresqlServer:
    """One server: its folder, its port, its processes."""

    folder: Path
    port: int
    process: "subprocess.Popen[bytes] | None" = field(default=None)
    _user: dict[str, Any] = field(default_factory=dict)

    @property
    def data(self) -> Path:
        """Where its files are."""
        return self.folder / "data"

    def address(self, database: str = "postgres") -> str:
        """Return the address of one of its databases."""
        return f"postgresql://sublet@127.0.0.1:{self.port}/{database}"

    def run(self, program: str, *words: str) -> None:
        """Run one of PostgreSQL's programs as the servers' user; it has to work."""
        self.folder.mkdir(exist_ok=True)
        self._user = hand_over(self.folder)
        done = subprocess.run(
            [find_postgresql(program), *words],
            capture_output=True,
            text=True,
            cwd=self.folder,
            timeout=120,
            check=False,
            **self._user,
        )
        assert done.returncode == 0, (program, words, done.stderr)

    def start(self, *, wait: bool = True) -> None:
        """Start it, and wait until it answers."""
        words = [find_postgresql("postgres"), "-D", str(self.data), "-p", str(self.port), "-h", "127.0.0.1"]
        words += ["-k", str(self.folder), *(word for each in _SETTINGS for word in ("-c", each))]
        with (self.folder / "log").open("ab") as log:
            self.process = subprocess.Popen(words, stdout=log, stderr=log, cwd=self.folder, **self._user)
        if wait:
            wait_until(self.answers, READY_SECONDS)

    def answers(self) -> bool:
        """Tell whether it answers a query."""
        assert self.process is not None
        assert self.process.poll() is None, (self.folder / "log").read_text()[-4000:]
        try:
            self.ask("SELECT 1")
        except psycopg.OperationalError:
            return False
        return True

    def ask(self, statement: str) -> Any:
        """Run one statement outside any transaction, and return the first field of its answer, if there is one."""
        with psycopg.connect(self.address(), autocommit=True, connect_timeout=2) as connection:
            found = connection.execute(statement.encode())
            row = found.fetchone() if found.description else None
        return row[0] if row else None

    def kill(self) -> None:
        """End all its processes as a power cut would, as far as processes go."""
        assert self.process is not None
        if self.process.poll() is not None:
            return
        # The first process is held, or it would see the others die, and start them anew.
        self.process.send_signal(signal.SIGSTOP)
        for pid in children_of(self.process.pid):
            with suppress(ProcessLookupError):
                os.kill(pid, signal.SIGKILL)
        self.process.kill()
        self.process.wait(20)

    def stop(self) -> None:
        """Have it end in its own time, without waiting for those who are connected."""
        assert self.process is not None
        if self.process.poll() is None:
            self.process.send_signal(signal.SIGINT)
            self.process.wait(60)


@dataclass(slots=True)
class PostgresqlPair:
    """A primary and its standby; after a takeover they have changed places.

    `synchronous` False is a broken twin: the primary acknowledges what the standby may not have.
    """

    primary: PostgresqlServer
    standby: PostgresqlServer
    database: str = "registry"
    synchronous: bool = True

    @property
    def address(self) -> str:
        """The address of the registry with both hosts; who connects gets the one that can be written."""
        first, second = sorted((self.primary.port, self.standby.port))
        hosts = f"127.0.0.1:{first},127.0.0.1:{second}"
        return f"postgresql://sublet@{hosts}/{self.database}?target_session_attrs=read-write"

    def begin(self) -> None:
        """Make the primary with an empty registry, and its standby."""
        words = ("-U", "sublet", "--auth=trust", "-E", "UTF8", "--locale=C.UTF-8", "-N")
        self.primary.run("initdb", "-D", str(self.primary.data), *words)
        self.primary.start()
        self.primary.ask(f"CREATE DATABASE {self.database}")
        self.build_standby()

    def build_standby(self) -> None:
        """Make the standby from the primary as an operator would, and from then on have the primary wait for it."""
        shutil.rmtree(self.standby.data, ignore_errors=True)
        source = f"host=127.0.0.1 port={self.primary.port} user=sublet application_name={STANDBY_NAME}"
        slot = ("--create-slot", "--slot", "standby", "--write-recovery-conf", "--checkpoint", "fast")
        self.standby.run("pg_basebackup", "-D", str(self.standby.data), "-d", source, *slot)
        self.standby.start()
        self.wait_for_standby()
        if self.synchronous:
            self.primary.ask(f"ALTER SYSTEM SET synchronous_standby_names = '{STANDBY_NAME}'")
            self.primary.ask("SELECT pg_reload_conf()")
            wait_until(lambda: self._standbys("sync_state = 'sync'") == 1, READY_SECONDS)

    def deadlocks(self) -> list[str]:
        """Return what the servers' logs say of deadlocks: each cost its transactions a second."""
        logs = [(each.folder / "log").read_text(errors="replace") for each in (self.primary, self.standby)]
        return [part[:2000] for log in logs for part in log.split("ERROR:  deadlock detected")[1:]]

    def wait_for_standby(self) -> None:
        """Wait until the standby follows the primary."""
        wait_until(lambda: self._standbys("state = 'streaming'") == 1, READY_SECONDS)

    def _standbys(self, condition: str) -> int:
        return int(self.primary.ask(f"SELECT count(*) FROM pg_stat_replication WHERE {condition}"))  # noqa: S608

    def take_over(self) -> None:
        """Promote the standby, and wait until it can be written; the old primary must not run any more."""
        assert self.primary.process is not None
        assert self.primary.process.poll() is not None, "first the old primary has to be gone for sure"
        self.standby.run("pg_ctl", "promote", "-D", str(self.standby.data), "-w")
        self.primary, self.standby = self.standby, self.primary
        wait_until(lambda: not self.primary.ask("SELECT pg_is_in_recovery()"), READY_SECONDS)


def children_of(pid: int) -> list[int]:
    """Return the ids of the processes that a process has started and that run."""
    found = []
    for each in Path("/proc").glob("[0-9]*/stat"):
        try:
            # pid (name) state parent …: the name may have spaces and parentheses.
            state, parent = each.read_text().rpartition(")")[2].split()[:2]
        except OSError:  # ended while we looked
            continue
        if int(parent) == pid and state != "Z":
            found.append(int(each.parent.name))
    return sorted(found)


@contextmanager
def postgresql_pair(folder: Path, *, synchronous: bool = True) -> Iterator[PostgresqlPair]:
    """A primary and a standby that follows it, with an empty registry; both ended in any case."""
    servers = [PostgresqlServer(folder / name, free_address()[1]) for name in ("first", "second")]
    pair = PostgresqlPair(servers[0], servers[1], synchronous=synchronous)
    try:
        pair.begin()
        yield pair
    finally:
        for server in servers:
            if server.process is not None:
                server.kill()
