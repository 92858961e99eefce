"""`sublet backup` and `sublet restore` over real files: beside a service that writes, and all that is
refused.
"""

import sqlite3
import stat
import threading
from collections.abc import Iterator
from contextlib import closing, contextmanager
from pathlib import Path

import pytest
from sqlalchemy import select

from sublet.db import Tx, sqlite_engine
from sublet.schema_revision import needed_revision
from sublet.subdomains.store import subdomains
from support.commands import answer, run
from support.next_version import REVISION, newer_version
from support.operator_registry import Registry, small_registry
from support.repetitions import share
from support.running_service import Registrant, RunningService
from support.serve_process import serve_process
from support.waiting import wait_until

pytestmark = pytest.mark.sqlite_only

NAMES_BEFORE = 20


def mode(path: Path) -> int:
    return stat.S_IMODE(path.stat().st_mode)


def held(path: Path) -> set[str]:
    """Return the names in a registry."""

    def ask(tx: Tx) -> set[str]:
        return set(tx.connection.execute(select(subdomains.c.fqdn)).scalars())

    return Registry(f"sqlite:///{path}").read(ask)


def left_over(folder: Path) -> list[str]:
    return [each.name for each in folder.iterdir() if ".part" in each.name]


@contextmanager
def registering(service: RunningService, who: Registrant) -> Iterator[list[str]]:
    """Register one name after the other beside the test; gives those that were acknowledged."""
    acknowledged: list[str] = []
    stop = threading.Event()

    def register() -> None:
        number = 0
        while not stop.is_set():
            name = f"name-{number}.example.test"
            service.register(who, name, nameservers=["ns1.provider.example"])
            acknowledged.append(name)
            number += 1

    thread = threading.Thread(target=register)
    thread.start()
    try:
        yield acknowledged
    finally:
        stop.set()
        thread.join(60)
        assert not thread.is_alive()


def wait_for_more(names: list[str]) -> None:
    seen = len(names)
    wait_until(lambda: len(names) >= seen + NAMES_BEFORE)


@pytest.mark.uncovered
@pytest.mark.slow
def test_a_served_registry_is_backed_up_and_restored(tmp_path: Path) -> None:
    database, file = tmp_path / "registry.db", tmp_path / "backup.db"
    url = f"sqlite:///{database}"
    with serve_process(url, tmp_path, free_quota=100_000) as serving:
        service = serving.service
        service.add_domain("example.test")
        ada = service.add_user(free_quota="100000")
        serving.start()
        with registering(service, ada) as acknowledged:
            for _ in range(share(1, whole=3)):
                wait_for_more(acknowledged)
                before = set(acknowledged)
                told = answer(url, "backup", file, "--force")
                assert before <= held(file)
                assert told["names"] == len(held(file))
                assert told["violations"] == []
            wait_for_more(acknowledged)
            assert "sublet serve" in run(url, "restore", file, "--force", expect=3)
        assert serving.stop() == 0
        after = held(database)
        assert held(file) < after
        restored = answer(url, "restore", file, "--force")
        assert held(database) == held(file)
        assert held(Path(restored["kept"])) == after
        serving.start()
        assert run(url, "doctor").startswith("No invariant")
        service.register(ada, "anew.example.test")
        assert serving.stop() == 0
    assert left_over(tmp_path) == []


def test_a_backup_is_one_file_for_its_owner_alone(tmp_path: Path) -> None:
    registry = small_registry(tmp_path)
    file = tmp_path / "backup.db"
    with closing(sqlite3.connect(registry.path)) as other:  # what is in the -wal only is in the copy too
        other.execute("PRAGMA journal_mode=WAL")
        other.execute("UPDATE users SET name = 'Anna Two' WHERE id = 1")
        other.commit()
        assert (tmp_path / "sublet.db-wal").stat().st_size > 0
        told = answer(registry.url, "backup", file)
    assert (told["users"], told["names"], told["schema"]) == (2, 2, needed_revision())
    assert told["newest_change_at"] == "2026-03-01T12:00:00Z"
    assert told["size_bytes"] == file.stat().st_size
    assert mode(file) == 0o600
    assert sorted(each.name for each in tmp_path.iterdir()) == ["backup.db", "sublet.db"]
    with closing(sqlite3.connect(f"file:{file}?mode=ro", uri=True)) as copy:
        assert copy.execute("SELECT name FROM users WHERE id = 1").fetchone() == ("Anna Two",)
        assert copy.execute("PRAGMA journal_mode").fetchone() == ("delete",)
    before = file.read_bytes()
    assert "--force" in run(registry.url, "backup", file, expect=1)
    assert file.read_bytes() == before
    assert run(registry.url, "backup", file, "--force").startswith("Backed up")


def test_backup_refuses_wrong_paths(tmp_path: Path) -> None:
    url, file = f"sqlite:///{tmp_path}/sublet.db", tmp_path / "backup.db"
    assert "sublet init" in run(url, "backup", file, expect=3)
    assert "pg_dump" in run("postgresql://a@localhost/b", "backup", file, expect=1)
    assert "pg_restore" in run("postgresql://a@localhost/b", "restore", file, expect=1)
    registry = small_registry(tmp_path)
    assert "itself" in run(url, "backup", registry.path, "--force", expect=1)
    assert "itself" in run(url, "backup", tmp_path / "sublet.db-wal", expect=1)
    assert "folder" in run(url, "backup", tmp_path, "--force", expect=1)
    assert "No such file" in run(url, "backup", tmp_path / "missing" / "backup.db", expect=3)
    (tmp_path / "backup.db-wal").write_bytes(b"x")
    assert "backup.db-wal" in run(url, "backup", file, expect=1)
    _break(registry.path)
    assert "is broken" in run(url, "backup", tmp_path / "other.db", expect=1)
    assert sorted(each.name for each in tmp_path.iterdir()) == ["backup.db-wal", "sublet.db"]


def _break(path: Path) -> None:
    """Overwrite a page of a table's."""
    with closing(sqlite3.connect(path)) as connection:
        size = connection.execute("PRAGMA page_size").fetchone()[0]
        root = connection.execute("SELECT rootpage FROM sqlite_master WHERE name = 'subdomains'").fetchone()[
            0
        ]
    with path.open("r+b") as file:
        file.seek((root - 1) * size)
        file.write(b"\xff" * size)


def test_restore_refuses_a_bad_backup_and_changes_nothing(tmp_path: Path) -> None:
    registry = small_registry(tmp_path)
    broken, text, other, newer, development, beside = (
        tmp_path / f"{name}.db" for name in ("broken", "text", "other", "newer", "development", "beside")
    )
    for each in (broken, newer, development, beside):
        run(registry.url, "backup", each)
    _break(broken)
    torn = tmp_path / "torn.db"
    torn.write_bytes(beside.read_bytes()[:100_000])
    text.write_text("This is no database. " * 100)
    (tmp_path / "beside.db-wal").write_bytes(b"x")
    with closing(sqlite3.connect(other)) as connection:
        connection.execute("CREATE TABLE a (b)")
    with closing(sqlite3.connect(newer)) as connection:
        connection.execute("UPDATE alembic_version SET version_num = '9999'")
        connection.commit()
    with closing(sqlite3.connect(development)) as connection:
        connection.execute("UPDATE alembic_version SET version_num = '0003'")
        connection.execute("DROP TABLE processes")  # of 0004
        connection.commit()
    before = registry.path.read_bytes()
    for file, told in (
        (broken, "is broken"),
        (torn, "is broken"),
        (text, "is broken: file is not a database"),
        (other, "not a registry"),
        (newer, "newer version"),
        (development, "development version"),
        (beside, "beside.db-wal"),
        (tmp_path / "missing.db", "no file"),
        (tmp_path, "no file"),
        (registry.path, "itself"),
    ):
        assert told in run(registry.url, "restore", file, "--force", expect=1), file
    assert "--force" in run(registry.url, "restore", newer, expect=1)
    assert registry.path.read_bytes() == before
    assert left_over(tmp_path) == []
    assert not list(tmp_path.glob("*before-restore*"))


def test_restore_is_refused_while_a_process_has_the_registry_open(tmp_path: Path) -> None:
    registry = small_registry(tmp_path)
    run(registry.url, "backup", tmp_path / "backup.db")
    before = registry.path.read_bytes()
    engine = sqlite_engine(registry.path)
    with engine.connect():
        told = run(registry.url, "restore", tmp_path / "backup.db", "--force", expect=3)
    engine.dispose()
    assert "open in another process" in told
    assert registry.path.read_bytes() == before
    assert not list(tmp_path.glob("*before-restore*"))
    assert left_over(tmp_path) == []


@pytest.mark.uncovered
def test_a_restored_registry_has_the_path_owner_and_mode_of_the_old_one(tmp_path: Path) -> None:
    registry = small_registry(tmp_path)
    file = tmp_path / "backup.db"
    run(registry.url, "backup", file)
    registry.register(1, "later.example.test")
    registry.path.chmod(0o640)
    told = answer(registry.url, "restore", file, "--force")
    assert mode(registry.path) == 0o640
    assert "later.example.test" not in held(registry.path)
    assert "later.example.test" in held(Path(told["kept"]))
    elsewhere = tmp_path / "elsewhere"
    elsewhere.mkdir()
    url = f"sqlite:///{elsewhere}/sublet.db"
    (elsewhere / "sublet.db-wal").write_bytes(b"of another registry")  # must never be read into this one
    shown = run(url, "restore", file)
    assert "kept" not in shown
    assert "changes made after 2026-03-01T12:00:00Z. Now run:" in shown
    assert mode(elsewhere / "sublet.db") == 0o600
    assert held(elsewhere / "sublet.db") == held(file)
    assert len(list(elsewhere.glob("sublet.db.before-restore-*-wal"))) == 1


def test_a_symbolic_link_to_the_registry_stays(tmp_path: Path) -> None:
    (tmp_path / "disk").mkdir()
    link, disk = tmp_path / "sublet.db", tmp_path / "disk" / "sublet.db"
    link.symlink_to(disk)
    run(f"sqlite:///{link}", "init")
    assert mode(disk) == 0o600
    run(f"sqlite:///{link}", "backup", tmp_path / "backup.db")
    kept = answer(f"sqlite:///{link}", "restore", tmp_path / "backup.db", "--force")["kept"]
    assert link.readlink() == disk
    assert sorted(disk.parent.iterdir()) == sorted((disk, Path(kept), Path(f"{disk}.serve-lock")))


def test_a_broken_registry_is_replaced_and_kept_with_its_wal(tmp_path: Path) -> None:
    registry = small_registry(tmp_path)
    run(registry.url, "backup", tmp_path / "backup.db")
    registry.path.write_bytes(b"broken " * 1000)
    (tmp_path / "sublet.db-wal").write_bytes(b"its newest part")
    (tmp_path / "sublet.db-shm").write_bytes(b"x" * 32768)
    kept = Path(answer(registry.url, "restore", tmp_path / "backup.db", "--force")["kept"])
    assert kept.read_bytes() == b"broken " * 1000
    assert kept.with_name(kept.name + "-wal").read_bytes() == b"its newest part"
    assert run(registry.url, "user", "list", "--json")
    assert not (tmp_path / "sublet.db-shm").exists()


@pytest.mark.uncovered
def test_a_backup_of_an_older_schema_is_restored_and_then_upgraded(tmp_path: Path) -> None:
    registry = small_registry(tmp_path)
    file, url = tmp_path / "backup.db", f"sqlite:///{tmp_path}/restored.db"
    newer = newer_version(goes_on=False)
    told = newer.run(registry.url, "backup", str(file))
    assert (told["schema"], told["violations"]) == (needed_revision(), None)
    assert "sublet migrate: upgrades the registry" in newer.tell(url, "restore", str(file))
    newer.run(url, "user", "list", expect=3)
    upgraded = {"before": needed_revision(), "after": REVISION, "other_spellings": []}
    assert newer.run(url, "init") == upgraded
    assert len(newer.run(url, "user", "list")) == told["users"]
    assert held(tmp_path / "restored.db") == held(registry.path)
