"""The file of a registry on SQLite: its mode, its lock behind symbolic links, and what is refused at the
start.
"""

import os
import sqlite3
import stat
from collections.abc import Callable
from contextlib import closing
from pathlib import Path

import pytest

from sublet.errors import Unavailable
from sublet.migrations import upgrade
from sublet.registry.copy_store import open_source, open_target
from sublet.schema_revision import open_engine, refuse_unusable_database
from sublet.sqlite_file import serve_lock

pytestmark = pytest.mark.sqlite_only


def test_only_its_owner_can_read_a_new_registry(tmp_path: Path) -> None:
    url = f"sqlite:///{tmp_path}/registry.db"
    mask = os.umask(0o022)
    try:
        upgrade(url)
        with open_engine(url).connect() as connection:
            connection.exec_driver_sql("DELETE FROM processes")
            modes = {each.name: stat.S_IMODE(each.stat().st_mode) for each in tmp_path.iterdir()}
    finally:
        os.umask(mask)
    assert modes == {"registry.db": 0o600, "registry.db-wal": 0o600, "registry.db-shm": 0o600}


def test_a_folder_that_can_t_be_written_is_named(tmp_path: Path) -> None:
    folder = tmp_path / "file"
    folder.touch()
    with pytest.raises(Unavailable, match="folder"):
        upgrade(f"sqlite:///{folder}/registry.db")


@pytest.mark.parametrize("link_to", [Path.hardlink_to, Path.symlink_to])
def test_all_links_to_a_file_share_its_lock(tmp_path: Path, link_to: Callable[[Path, Path], None]) -> None:
    path, link = tmp_path / "registry.db", tmp_path / "elsewhere" / "link.db"
    path.touch(0o640)
    upgrade(f"sqlite:///{path}")
    assert stat.S_IMODE(path.stat().st_mode) == 0o640, "an existing file keeps its mode"
    link.parent.mkdir()
    link_to(link, path)
    for first, second in ((path, link), (link, path)):
        taken = pytest.raises(Unavailable, match="Another `sublet serve`")
        with serve_lock(first), taken, serve_lock(second):
            pass
        with serve_lock(second):  # released with the first
            pass


def test_the_lock_leaves_the_locks_of_other_programs(tmp_path: Path) -> None:
    path = tmp_path / "registry.db"
    upgrade(f"sqlite:///{path}")
    with serve_lock(path), closing(sqlite3.connect(path)) as connection:
        connection.execute("BEGIN IMMEDIATE")
        connection.rollback()


def test_a_file_that_is_no_database_is_refused_at_the_start(tmp_path: Path) -> None:
    path = tmp_path / "registry.db"
    path.write_bytes(b"no database" * 1000)
    with pytest.raises(Unavailable, match=r"file is not a database. Restore a backup"):
        refuse_unusable_database(f"sqlite:///{path}")


@pytest.mark.parametrize(
    ("statement", "says"),
    [
        ("UPDATE sqlite_master SET sql = 'nothing' WHERE name = 'users'", r"malformed .*Restore a backup"),
        ("DROP TABLE leases", r"lacks the table.* leases.*Restore a backup"),
    ],
)
def test_a_malformed_schema_is_refused_at_the_start(tmp_path: Path, statement: str, says: str) -> None:
    path = tmp_path / "registry.db"
    upgrade(f"sqlite:///{path}")
    with closing(sqlite3.connect(path)) as connection:
        connection.execute("PRAGMA writable_schema = ON")
        connection.execute(statement)
        connection.commit()
    with pytest.raises(Unavailable, match=says):
        refuse_unusable_database(f"sqlite:///{path}")


def test_no_other_process_writes_while_a_registry_is_copied_or_upgraded(tmp_path: Path) -> None:
    path = tmp_path / "registry.db"
    url = f"sqlite:///{path}"
    upgrade(url)
    for opened in (open_source(url, path), open_target(url, path)):
        with (
            opened,
            closing(sqlite3.connect(path, timeout=0)) as another,
            pytest.raises(sqlite3.OperationalError, match="locked"),
        ):
            another.execute("BEGIN IMMEDIATE")
