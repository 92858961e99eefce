"""The commands of "Run it for real" in README.md work, with another prefix and another folder for the
database.
"""

import os
import re
import subprocess
import sys
from pathlib import Path

README = Path(__file__).parents[2] / "README.md"
PREFIX, FOLDER = "/opt/sublet", "/var/lib/sublet"


def commands() -> list[str]:
    """Return the commands of the section in order."""
    section = README.read_text(encoding="utf-8").split("\n## Run it for real\n", 1)[1].split("\n## ", 1)[0]
    return [line.strip() for line in re.findall(r"^    \S.*$", section, re.MULTILINE)]


def test_the_commands_of_run_it_for_real_make_a_registry(tmp_path: Path) -> None:
    """Without installing, which tests/supply/test_locks.py tests, and without
    serving, which needs port 53.
    """
    found = commands()
    assert found[0] == f"python3 -m venv {PREFIX}"
    assert found[-1] == "sublet serve"
    (tmp_path / "opt" / "bin").mkdir(parents=True)
    (tmp_path / "opt" / "bin" / "sublet").symlink_to(Path(sys.executable).parent / "sublet")
    lines = [line for line in found if not line.startswith(("python3", f"{PREFIX}/bin/pip", "sublet serve"))]
    script = (
        "\n".join(lines).replace(PREFIX, str(tmp_path / "opt")).replace(FOLDER, str(tmp_path / "var" / "lib"))
    )
    environment = {"PATH": "/usr/bin:/bin", "HOME": str(tmp_path), "PYTHONPATH": os.pathsep.join(sys.path)}
    ran = subprocess.run(
        ["bash", "-e", "-c", script],
        env=environment,
        capture_output=True,
        text=True,
        timeout=300,
        check=False,
    )
    assert (ran.returncode, ran.stderr) == (0, "")
    assert re.search(r"\bsublet_\w{38}\b", ran.stdout)
    assert (tmp_path / "var" / "lib" / "sublet.db").exists()
