"""Three nodes of etcd, Patroni and PostgreSQL with the files of `deploy/patroni/`, all on this machine.

Every node uses fsync.

Patroni starts PostgreSQL in a session of its own, so a node is killed by the ids of its processes.
"""

import os
import signal
import subprocess
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any
from urllib.parse import quote

import httpx
import psycopg

from support import http_clients
from support.deploy_files import DEPLOY
from support.free_ports import free_port
from support.postgresql import find_postgresql, hand_over
from support.processes import children_of, is_running
from support.waiting import wait_until

READY_SECONDS = 180.0
"""How long a copy of the data may take on a busy machine."""
PASSWORD = "a p/ss:w@rd%"
_FILES = DEPLOY / "patroni"
_NAMES = ("db1", "db2", "db3")


@dataclass(slots=True)
class Node:
    """A node: its etcd, its Patroni and the PostgreSQL of that."""

    name: str
    folder: Path
    ports: dict[str, int]
    etcd: "subprocess.Popen[bytes] | None" = field(default=None)
    patroni: "subprocess.Popen[bytes] | None" = field(default=None)
    frozen: list[int] = field(default_factory=list)
    """The processes that `freeze` stopped."""

    @property
    def data(self) -> Path:
        """The folder of PostgreSQL's files."""
        return self.folder / "data"

    def at(self, what: str) -> str:
        """Return the address of one of its ports."""
        return f"127.0.0.1:{self.ports[what]}"

    def ask(self, statement: str) -> Any:
        """Run one statement as the superuser; return the first field of its answer, if there is one."""
        with psycopg.connect(
            host="127.0.0.1",
            port=self.ports["postgresql"],
            user="postgres",
            password=PASSWORD,
            dbname="postgres",
            autocommit=True,
            connect_timeout=2,
        ) as connection:
            found = connection.execute(statement.encode())
            row = found.fetchone() if found.description else None
        return row[0] if row else None

    def is_primary(self) -> bool:
        """True if its PostgreSQL can be written."""
        try:
            return not self.ask("SELECT pg_is_in_recovery()")
        except psycopg.OperationalError:
            return False

    def start(self, nodes: "list[Node]") -> None:
        """Start its etcd and its Patroni, which starts PostgreSQL."""
        cluster = ",".join(f"{each.name}=http://{each.at('peer')}" for each in nodes)
        is_new = not (self.folder / "etcd").exists()
        self.etcd = self._start(
            ["etcd"],
            _environment(
                "etcd.env",
                ETCD_NAME=self.name,
                ETCD_DATA_DIR=str(self.folder / "etcd"),
                ETCD_LISTEN_CLIENT_URLS=f"http://{self.at('client')}",
                ETCD_ADVERTISE_CLIENT_URLS=f"http://{self.at('client')}",
                ETCD_LISTEN_PEER_URLS=f"http://{self.at('peer')}",
                ETCD_INITIAL_ADVERTISE_PEER_URLS=f"http://{self.at('peer')}",
                ETCD_INITIAL_CLUSTER=cluster,
                ETCD_INITIAL_CLUSTER_TOKEN="sublet",
                ETCD_INITIAL_CLUSTER_STATE="new" if is_new else "existing",
                ETCD_ENABLE_V2="true",
            ),
        )
        config = self.folder / "config.yml"
        config.write_text(_config(self.folder, nodes))
        self.patroni = self._start(
            ["patroni", str(config)],
            _environment(
                "node.env",
                PATRONI_NAME=self.name,
                PATRONI_POSTGRESQL_LISTEN=self.at("postgresql"),
                PATRONI_POSTGRESQL_CONNECT_ADDRESS=self.at("postgresql"),
                PATRONI_RESTAPI_LISTEN=self.at("rest"),
                PATRONI_RESTAPI_CONNECT_ADDRESS=self.at("rest"),
                PATRONI_SUPERUSER_PASSWORD=PASSWORD,
                PATRONI_REPLICATION_PASSWORD=PASSWORD,
            )
            # The user's home isn't the node's.
            | {"PATRONI_POSTGRESQL_PGPASS": str(self.folder / "pgpass")},
        )

    def _start(self, words: list[str], environment: dict[str, str]) -> "subprocess.Popen[bytes]":
        with (self.folder / f"{words[0]}.log").open("ab") as log:
            return subprocess.Popen(
                words,
                stdout=log,
                stderr=log,
                cwd=self.folder,
                env={**os.environ, **environment},
                start_new_session=True,
                **hand_over(self.folder),
            )

    def postmaster(self) -> int | None:
        """Return the process id of PostgreSQL, None if it doesn't run."""
        try:
            pid = int((self.data / "postmaster.pid").read_text().split()[0])
        except (OSError, IndexError):
            return None
        return pid if is_running(pid) else None

    def kill_postmaster(self) -> None:
        """Kill PostgreSQL's first process; the others then end by themselves."""
        pid = self.postmaster()
        assert pid is not None, f"PostgreSQL of {self.name} doesn't run"
        os.kill(pid, signal.SIGKILL)

    def kill(self) -> None:
        """Kill all of the node, Patroni first, so that it acts on nothing."""
        for process in (self.patroni, self.etcd):
            if process is not None:
                with suppress(ProcessLookupError):
                    os.killpg(process.pid, signal.SIGKILL)
                process.wait(60)
        self.patroni = self.etcd = None
        if (pid := self.postmaster()) is not None:
            # A running parent would see the others die, and restart them.
            _send(signal.SIGSTOP, [pid])
            _send(signal.SIGKILL, [*children_of(pid), pid])
            wait_until(lambda: not is_running(pid))

    def freeze(self) -> None:
        """Stop all processes of the node in the middle of their work.

        The kernel still acknowledges what is sent to them.
        """
        assert self.patroni is not None
        assert self.etcd is not None
        _send(signal.SIGSTOP, [self.patroni.pid, self.etcd.pid])
        pid = self.postmaster()
        assert pid is not None
        _send(signal.SIGSTOP, [pid])
        self.frozen = [pid, *children_of(pid)]
        _send(signal.SIGSTOP, self.frozen)
        self.frozen += [self.patroni.pid, self.etcd.pid]

    def thaw(self) -> None:
        """Let go on what was frozen."""
        _send(signal.SIGCONT, self.frozen)
        self.frozen = []


def _send(number: signal.Signals, pids: list[int]) -> None:
    for pid in pids:
        with suppress(ProcessLookupError):
            os.kill(pid, number)


@dataclass(slots=True)
class PatroniCluster:
    """The nodes; an address of Sublet names all of them."""

    nodes: list[Node]
    database: str = "registry"

    @property
    def address(self) -> str:
        """The address of the registry: one host by its name, the others by their addresses."""
        hosts = ",".join(
            f"{host}:{node.ports['postgresql']}"
            for host, node in zip(("localhost", "127.0.0.1", "127.0.0.1"), self.nodes, strict=True)
        )
        return (
            f"postgresql://sublet:{quote(PASSWORD, safe='')}@{hosts}/{self.database}"
            "?target_session_attrs=read-write"
        )

    def primary(self) -> Node:
        """Wait for the node that can be written, and return it."""
        found: list[Node] = []

        def is_there() -> bool:
            found[:] = [each for each in self.nodes if each.is_primary()]
            return len(found) == 1

        wait_until(is_there, READY_SECONDS)
        return found[0]

    def wait_until_whole(self) -> None:
        """Wait until one node is the primary, one follows synchronously and one beside."""
        wait_until(lambda: sorted(self._roles()) == ["leader", "replica", "sync_standby"], READY_SECONDS)
        primary = self.primary()
        streaming = "SELECT count(*) FROM pg_stat_replication WHERE state = 'streaming'"
        wait_until(lambda: primary.ask(streaming) == len(self.nodes) - 1, READY_SECONDS)

    def _roles(self) -> list[str]:
        """Return the roles of the running members as Patroni shows them."""
        for node in self.nodes:
            with suppress(httpx.TransportError):
                answer = http_clients.get(f"http://{node.at('rest')}/cluster", timeout=5).json()
                return [
                    str(each["role"])
                    for each in answer["members"]
                    if each["state"] in ("running", "streaming")
                ]
        return []

    def deadlocks(self) -> list[str]:
        """Return the deadlocks in the servers' logs."""
        logs = [(each.folder / "patroni.log").read_text(errors="replace") for each in self.nodes]
        return [part[:2000] for log in logs for part in log.split("ERROR:  deadlock detected")[1:]]

    def logs(self) -> str:
        """Return the ends of what Patroni and PostgreSQL wrote, for a failed trial."""
        return "\n".join(
            f"== {each.name}\n{(each.folder / 'patroni.log').read_text(errors='replace')[-6000:]}"
            for each in self.nodes
        )


@contextmanager
def patroni_cluster(folder: Path) -> Iterator[PatroniCluster]:
    """Run the nodes with an empty registry; kill them after the block."""
    nodes = []
    for name in _NAMES:
        (folder / name).mkdir(parents=True)
        ports = {what: free_port() for what in ("postgresql", "rest", "client", "peer")}
        nodes.append(Node(name, folder / name, ports))
    cluster = PatroniCluster(nodes)
    try:
        for node in nodes:
            node.start(nodes)
        cluster.wait_until_whole()
        primary = cluster.primary()
        primary.ask(f"CREATE ROLE sublet LOGIN PASSWORD '{PASSWORD}'")
        primary.ask(f"CREATE DATABASE {cluster.database} OWNER sublet")
        yield cluster
    except BaseException as error:
        error.add_note(cluster.logs())
        raise
    finally:
        for node in nodes:
            node.kill()


def _config(folder: Path, nodes: list[Node]) -> str:
    """Return deploy/patroni/config.yml with this machine's places in it."""
    text = (_FILES / "config.yml").read_text()
    clients = ", ".join(each.at("client") for each in nodes)
    for old, new in (
        ("db1.example.net:2379, db2.example.net:2379, db3.example.net:2379", clients),
        ("/var/lib/postgresql/sublet", str(folder / "data")),
        ("/usr/lib/postgresql/15/bin", str(Path(find_postgresql("pg_rewind")).parent)),
        ("/run/postgresql", str(folder)),
    ):
        assert old in text, f"deploy/patroni/config.yml doesn't have {old}"
        text = text.replace(old, new)
    return text


def _environment(name: str, **values: str) -> dict[str, str]:
    """Return the variables of a file in deploy/patroni, each with this machine's value."""
    lines = [line for line in (_FILES / name).read_text().splitlines() if not line.startswith("#")]
    names = [line.partition("=")[0] for line in lines]
    assert sorted(names) == sorted(values), f"deploy/patroni/{name} has other variables"
    return values
