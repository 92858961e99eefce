"""Settings of an earlier version: the command works, and stderr has a warning."""

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

from support import databases
from support.serve_process import serve_process

pytestmark = pytest.mark.slow
REMOVED = ("one_processor",)


@pytest.mark.parametrize("name", REMOVED)
def test_a_command_works_and_warns(name: str, tmp_path: Path) -> None:
    file = tmp_path / "sublet.toml"
    file.write_text(f'{name} = "no"\nfree_quota = 7\n', encoding="utf-8")
    done = subprocess.run(
        [sys.executable, "-m", "sublet.cli.main", "--config", str(file), "settings", "--json"],
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
        env={**os.environ, "PYTHONPATH": os.pathsep.join(sys.path)},
    )
    assert (done.returncode, done.stderr.count("\n")) == (0, 1)
    assert done.stderr.startswith(f"sublet: warning: {name}: this setting was removed")
    values = {each["name"]: each["value"] for each in json.loads(done.stdout)}
    assert name not in values
    assert values["free_quota"] == 7


@pytest.mark.parametrize("name", REMOVED)
def test_the_service_starts_and_warns(name: str, tmp_path: Path) -> None:
    with serve_process(databases.registry_address(tmp_path), tmp_path) as serving:
        serving.environment[f"SUBLET_{name.upper()}"] = "yes"
        serving.start()
        assert serving.log.read_text().count(f"sublet: warning: {name}: this setting was removed") == 1
