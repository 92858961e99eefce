"""The bench itself: its filled registries are whole, what it plays again does what was recorded, and a run comes to its end."""

import json
import os
import shutil
import subprocess
import sys
import tempfile
from pathlib import Path
from xml.etree import ElementTree as ET

import pytest
from speed.bare_sql import count_statements, play_on_postgresql, play_on_sqlite, played
from speed.fill import fill
from speed.places import POSTGRESQL, SQLITE, place
from speed.recorder import record
from speed.table import BEGINS, ENDS
from speed.workloads import BY_NAME, Sender
from sqlalchemy import create_engine, text

ROOT = Path(__file__).parents[2]
NAMES = 90


def doctor(url: str) -> "subprocess.CompletedProcess[str]":
    command = [sys.executable, "-m", "sublet.cli.main", "doctor"]
    environment = os.environ | {"SUBLET_DATABASE_URL": url}
    return subprocess.run(command, env=environment, capture_output=True, text=True, check=False)


@pytest.mark.slow
@pytest.mark.parametrize("database", [SQLITE, POSTGRESQL])
def test_a_filled_registry_is_whole_and_is_what_the_statements_were_recorded_on(
    database: str,
) -> None:
    # Not in pytest's own folder: PostgreSQL is another user.
    with (
        tempfile.TemporaryDirectory(prefix="sublet-bench-") as folder,
        place(database, Path(folder) / "place") as where,
    ):
        filled = fill(where.registry(), NAMES, domains=3, renewable=10)
        found = doctor(filled.url)
        assert found.returncode == 0, found.stdout + found.stderr
        copy, again = where.registry(like=filled.url), where.registry(like=filled.url)
        sender = Sender(filled)
        count = 0
        for name in ("register", "paid", "update", "renew", "reply"):
            workload = BY_NAME[name]
            taken = record(copy, workload.make(sender, 8 * workload.requests)[: 8 * workload.requests])
            assert {each.status for each in taken[workload.requests - 1 :: workload.requests]} <= {200, 201}
            together = [
                taken[first : first + workload.requests] for first in range(0, len(taken), workload.requests)
            ]
            requests = played(together)
            assert len(requests) >= 6, "the first may be of another form, the rest not"
            assert count_statements(together[-1][-1]) > 3
            count += len(requests)
            if database == SQLITE:
                assert play_on_sqlite(again.removeprefix("sqlite:///"), requests, 4) > 0
            else:
                assert play_on_postgresql(again, requests, 4) > 0
        assert _count_events(again) == _count_events(filled.url) + count


def _count_events(url: str) -> int:
    """Each of these requests has one event."""
    engine = create_engine(url.replace("postgresql://", "postgresql+psycopg://"))
    with engine.connect() as connection:
        found = int(connection.execute(text("SELECT count(*) FROM audit_events")).scalar_one())
    engine.dispose()
    return found


@pytest.mark.slow
@pytest.mark.sqlite_only
def test_a_small_run_comes_to_its_end(tmp_path: Path) -> None:
    if shutil.which("wrk") is None:
        pytest.skip("wrk is not installed")
    page = tmp_path / "performance.md"
    page.write_text(f"# Speed\n\n{BEGINS}\n{ENDS}\n", encoding="utf-8")
    command = [sys.executable, str(ROOT / "bench" / "bench.py"), "--quick", "--write", str(tmp_path)]
    done = subprocess.run(command, capture_output=True, text=True, check=False, timeout=240)
    assert done.returncode == 0, done.stdout + done.stderr
    assert "| GET one name |" in done.stdout
    assert "| GET one name |" in page.read_text(encoding="utf-8")
    figures = json.loads((tmp_path / "performance" / "figures.json").read_text(encoding="utf-8"))
    (registry,) = figures["registries"]
    assert {"hello", "one", "register"} <= {each["name"] for each in registry["figures"]}
    assert {"read_p99_ms", "answer_p50_ms", "ready_seconds", "pss_serve"} <= set(registry["values"])
    for picture in (tmp_path / "performance").glob("*.svg"):
        ET.parse(picture)  # noqa: S314 - ours
