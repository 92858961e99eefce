"""A PostgreSQL of the tests' own: in a temporary folder, on a free loopback port, stopped by its process id."""

import itertools
import os
import pwd
import shutil
import subprocess
import time
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from types import MappingProxyType
from typing import Any

import psycopg

from support.free_ports import free_port

_NUMBERS = itertools.count(1)


def find_postgresql(name: str) -> str:
    """Return the path of one of PostgreSQL's programs; Debian has most of them outside any PATH."""
    found = shutil.which(name) or next(
        (str(p) for p in sorted(Path("/usr/lib/postgresql").glob(f"*/bin/{name}"))), None
    )
    assert found, f"{name} is missing: install Debian's package postgresql (`make test` does)"
    return found


def hand_over(folder: Path) -> dict[str, Any]:
    """Give a folder to the user that PostgreSQL is to run as; return what `subprocess` is told to run as that user."""
    if os.getuid() != 0:
        return {}
    # PostgreSQL refuses to run as root.
    nobody = pwd.getpwnam("postgres")
    for each in (folder, *folder.parents):
        if each.stat().st_uid == 0 and each != Path("/") and str(each).startswith("/tmp"):  # noqa: S108
            each.chmod(each.stat().st_mode | 0o011)
    os.chown(folder, nobody.pw_uid, nobody.pw_gid)
    return {"user": nobody.pw_uid, "group": nobody.pw_gid, "extra_groups": []}


@contextmanager
def run_postgresql(
    folder: Path,
    *,
    durable: bool = False,
    prefix: tuple[str, ...] = (),
    settings: Mapping[str, str] = MappingProxyType({}),
) -> Iterator[str]:
    """Run a server, which waits for the disk where it is `durable`; gives the address of its database `postgres`.

    `prefix` is a program, with its words, that runs it as the same process; `settings` are the server's own.
    """
    data = folder / "data"
    user = hand_over(folder)
    port = free_port()
    initdb = [
        find_postgresql("initdb"),
        "-D",
        str(data),
        "-U",
        "sublet",
        "--auth=trust",
        "-E",
        "UTF8",
        "--locale=C.UTF-8",
        "-N",
    ]
    subprocess.run(initdb, check=True, capture_output=True, cwd=folder, **user)
    words = [
        *prefix,
        find_postgresql("postgres"),
        "-D",
        str(data),
        "-p",
        str(port),
        "-h",
        "127.0.0.1",
        "-k",
        str(folder),
    ]
    # No test cuts the power, and each makes a database and drops it: waiting for the disk would be most of their time.
    words += [] if durable else ["-c", "fsync=off", "-c", "full_page_writes=off"]
    for name, value in settings.items():
        words += ["-c", f"{name}={value}"]
    log = (folder / "log").open("wb")
    server = subprocess.Popen(words, stdout=log, stderr=log, cwd=folder, **user)
    url = f"postgresql://sublet@127.0.0.1:{port}/postgres"
    try:
        _wait_for(url, server)
        yield url
    finally:
        server.terminate()
        server.wait(30)
        log.close()


def _wait_for(url: str, server: "subprocess.Popen[bytes]") -> None:
    for _ in range(200):
        assert server.poll() is None, "PostgreSQL did not start"
        try:
            psycopg.connect(url, connect_timeout=2).close()
        except psycopg.OperationalError:
            time.sleep(0.05)
        else:
            return
    raise AssertionError("PostgreSQL does not answer")


@contextmanager
def fresh_database(server_url: str, *, like: str | None = None) -> Iterator[str]:
    """Make a database on a server, empty or like another one that nobody is connected to, and drop it afterwards."""
    template = like.rpartition("/")[2] if like else "template1"
    name = f"registry_{os.getpid()}_{next(_NUMBERS)}"
    with psycopg.connect(server_url, autocommit=True) as connection:
        connection.execute(f"CREATE DATABASE {name} TEMPLATE {template}")
    try:
        yield server_url.rpartition("/")[0] + f"/{name}"
    finally:
        with psycopg.connect(server_url, autocommit=True) as connection:
            connection.execute(f"DROP DATABASE IF EXISTS {name} WITH (FORCE)")
