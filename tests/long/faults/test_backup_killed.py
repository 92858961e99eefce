"""`sublet backup` and `restore` killed at each step: the old file is whole, or the new one."""

import os
import shutil
import signal
import sqlite3
import subprocess
import sys
from contextlib import closing
from pathlib import Path

import pytest

from sublet.accounts.store import count_users
from sublet.accounts.users import add_user
from sublet.doctor.checks import check_all
from support.operator_registry import Registry, small_registry

pytestmark = [pytest.mark.whole, pytest.mark.sqlite_only]
SCRIPT = Path(__file__).parent / "killed_backup.py"
STEPS_MAX = 20


def _run(registry: Registry, kill_at: int, *words: str) -> int:
    environment = {"SUBLET_DATABASE_URL": registry.url, "KILL_AT": str(kill_at)}
    done = subprocess.run(
        [sys.executable, str(SCRIPT), *words],
        env={**os.environ, **environment},
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
    )
    assert done.returncode in {0, -signal.SIGKILL}, done.stderr
    return done.returncode


def _users(path: Path) -> int:
    """Return how many users a registry has, of which no invariant is broken."""
    registry = Registry(f"sqlite:///{path}")
    assert registry.read(check_all) == []
    return int(registry.read(count_users))


def _other(tmp_path: Path) -> Path:
    """Return a registry with one user more than `small_registry`, as one file."""
    folder = tmp_path / "other"
    folder.mkdir()
    registry = small_registry(folder)
    registry.do(add_user, "carl@example.net", "Carl")
    return registry.path


def test_a_killed_backup_leaves_the_older_backup(tmp_path: Path) -> None:
    registry = small_registry(tmp_path)
    users, more = _users(registry.path), _other(tmp_path)
    target = tmp_path / "backup.db"
    killed = 0
    for step in range(1, STEPS_MAX):
        shutil.copy(more, target)
        ended = _run(registry, step, "backup", str(target), "--force")
        found = _users(target)
        if ended == 0:
            assert found == users
            break
        killed += 1
        assert found in {users, users + 1}
        assert _users(registry.path) == users
    assert killed >= 3


def _unclean(folder: Path) -> Registry:
    """Return a registry as a killed process leaves it: its third user is in the `-wal` alone."""
    whole = small_registry(folder)
    left = folder / "left"
    left.mkdir()
    with closing(sqlite3.connect(whole.path)) as other:  # while it is open, nothing is written back
        other.execute("SELECT count(*) FROM users").fetchone()
        whole.do(add_user, "dora@example.net", "Dora")
        for name in ("sublet.db", "sublet.db-wal"):
            shutil.copy(folder / name, left / name)
    return Registry(f"sqlite:///{left}/sublet.db")


def test_a_killed_restore_leaves_the_older_registry_intact(tmp_path: Path) -> None:
    backup = _other(tmp_path)
    Registry(f"sqlite:///{backup}").do(add_user, "emil@example.net", "Emil")
    users = _users(backup)
    killed = 0
    for step in range(1, STEPS_MAX):
        folder = tmp_path / str(step)
        folder.mkdir()
        registry = _unclean(folder)
        ended = _run(registry, step, "restore", str(backup), "--force")
        kept = list(registry.path.parent.glob("sublet.db.before-restore-*"))
        found = _users(registry.path)
        if ended == 0:
            assert found == users
            assert [_users(each) for each in kept] == [users - 1]
            break
        killed += 1
        # The old backup is needed elsewhere only when the new one is in its place.
        assert found == users - 1 or (found == users and [_users(each) for each in kept] == [users - 1])
    assert killed >= 5
