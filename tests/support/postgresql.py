"""PostgreSQL servers for tests. Each runs in a temporary folder, on a free loopback port."""

import itertools
import os
import pwd
import shutil
import signal
import subprocess
from collections.abc import Iterator, Mapping
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from pathlib import Path
from types import MappingProxyType
from typing import Any

import psycopg

from support.free_ports import free_port
from support.processes import children_of, is_running
from support.waiting import wait_until

_NUMBERS = itertools.count(1)


def find_postgresql(name: str) -> str:
    """Return the path of one of PostgreSQL's programs; Debian installs most of them outside PATH."""
    found = shutil.which(name) or next(
        (str(p) for p in sorted(Path("/usr/lib/postgresql").glob(f"*/bin/{name}"))), None
    )
    assert found, f"{name} is missing: install Debian's package postgresql (`make test` does)"
    return found


def hand_over(folder: Path) -> dict[str, Any]:
    """Make PostgreSQL's user the owner of a folder.

    Return the arguments with which `subprocess` runs a program as this user.
    """
    if os.getuid() != 0:
        return {}
    # PostgreSQL refuses to run as root.
    user = pwd.getpwnam("postgres")
    for each in (folder, *folder.parents):
        if each.stat().st_uid == 0 and each != Path("/") and str(each).startswith("/tmp"):  # noqa: S108
            each.chmod(each.stat().st_mode | 0o011)
    os.chown(folder, user.pw_uid, user.pw_gid)
    return {"user": user.pw_uid, "group": user.pw_gid, "extra_groups": []}


@dataclass(slots=True)
class PostgresqlServer:
    """A server in a folder of its own. It waits for the disk (fsync) unless `settings` say otherwise.

    `prefix` is a command that runs PostgreSQL, such as strace.
    """

    folder: Path
    port: int
    settings: Mapping[str, str] = field(default_factory=dict)
    prefix: tuple[str, ...] = ()
    process: "subprocess.Popen[bytes] | None" = None

    @property
    def data(self) -> Path:
        """The folder of the server's data."""
        return self.folder / "data"

    def address(self, database: str = "postgres") -> str:
        """Return the address of a database."""
        return f"postgresql://sublet@127.0.0.1:{self.port}/{database}"

    def create(self) -> None:
        """Create the server's data, without other databases than PostgreSQL's own."""
        words = ("-U", "sublet", "--auth=trust", "-E", "UTF8", "--locale=C.UTF-8", "-N")
        self.run("initdb", "-D", str(self.data), *words)

    def run(self, program: str, *words: str) -> None:
        """Run a program of PostgreSQL as the server's user. It must succeed."""
        self.folder.mkdir(exist_ok=True)
        done = subprocess.run(
            [find_postgresql(program), *words],
            capture_output=True,
            text=True,
            cwd=self.folder,
            timeout=300,
            check=False,
            **hand_over(self.folder),
        )
        assert done.returncode == 0, (program, words, done.stderr)

    def start(self) -> None:
        """Start the server, and wait until it answers."""
        settings = {"listen_addresses": "127.0.0.1", "unix_socket_directories": self.folder, **self.settings}
        words = [*self.prefix, find_postgresql("postgres"), "-D", str(self.data), "-p", str(self.port)]
        words += [word for name, value in settings.items() for word in ("-c", f"{name}={value}")]
        with (self.folder / "log").open("ab") as log:
            self.process = subprocess.Popen(
                words, stdout=log, stderr=log, cwd=self.folder, **hand_over(self.folder)
            )
        wait_until(self._answers)

    def _answers(self) -> bool:
        assert self.process is not None
        assert self.process.poll() is None, (self.folder / "log").read_text()[-4000:]
        try:
            self.ask("SELECT 1")
        except psycopg.OperationalError:
            return False
        return True

    def ask(self, statement: str) -> Any:
        """Run a statement outside of a transaction.

        Return the first field of the answer, or None without an answer.
        """
        with psycopg.connect(self.address(), autocommit=True, connect_timeout=2) as connection:
            found = connection.execute(statement.encode())
            row = found.fetchone() if found.description else None
        return row[0] if row else None

    def kill(self) -> None:
        """Kill all processes of the server at once, as a power cut would."""
        assert self.process is not None
        if self.process.poll() is not None:
            return
        # The parent process would otherwise restart the others.
        self.process.send_signal(signal.SIGSTOP)
        children = children_of(self.process.pid)
        for pid in children:
            with suppress(ProcessLookupError):
                os.kill(pid, signal.SIGKILL)
        self.process.kill()
        self.process.wait(60)
        # A start would fail while one of them lives: it still has the shared memory.
        wait_until(lambda: not any(map(is_running, children)))


@contextmanager
def run_postgresql(
    folder: Path,
    *,
    durable: bool = False,
    prefix: tuple[str, ...] = (),
    settings: Mapping[str, str] = MappingProxyType({}),
) -> Iterator[str]:
    """Run a server, and yield the address of its database `postgres`.

    Only a `durable` server waits for the disk.
    """
    # Most tests create and drop a database, and would spend most of their time waiting for the disk.
    fast = {} if durable else {"fsync": "off", "full_page_writes": "off"}
    server = PostgresqlServer(folder, free_port(), {**fast, **settings}, prefix)
    server.create()
    server.start()
    assert server.process is not None
    try:
        yield server.address()
    finally:
        server.process.send_signal(signal.SIGINT)  # ends connections, which SIGTERM would wait for
        server.process.wait(60)


@contextmanager
def fresh_database(server_url: str, *, like: str | None = None) -> Iterator[str]:
    """Create a database, empty or as a copy of the database `like`, which must have no connections; drop it
    at the end.
    """
    template = like.rpartition("/")[2] if like else "template1"
    name = f"registry_{os.getpid()}_{next(_NUMBERS)}"
    with psycopg.connect(server_url, autocommit=True) as connection:
        # Without fsync, copying files is faster than writing each page to the log.
        connection.execute(f"CREATE DATABASE {name} TEMPLATE {template} STRATEGY FILE_COPY")
    try:
        yield server_url.rpartition("/")[0] + f"/{name}"
    finally:
        with psycopg.connect(server_url, autocommit=True) as connection:
            connection.execute(f"DROP DATABASE IF EXISTS {name} WITH (FORCE)")
