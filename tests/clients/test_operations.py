"""No operation of the API is without a method and a command, and the pages that say so are generated."""

import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

sys.path.append(str(Path(__file__).resolve().parents[2] / "tools"))
import client_coverage
import generate_client
import generate_subletctl

COVERAGE = client_coverage.coverage()


def test_every_operation_has_a_command_or_a_reason() -> None:
    """Give a new operation a command that `uses` it. Its method: test_generated.py."""
    for operation in (each.name for each in generate_client.FOR_PROGRAMS):
        reason = client_coverage.NOT_IN_SUBLETCTL.get(operation)
        has_command = bool(COVERAGE[operation][client_coverage.SUBLETCTL])
        assert has_command != bool(reason), (
            f"give {operation} either a command of subletctl, or a reason in NOT_IN_SUBLETCTL"
        )
    assert client_coverage.NOT_IN_SUBLETCTL.keys() <= COVERAGE.keys()


def test_every_client_has_what_all_users_need() -> None:
    for operation in ("register", "delete", "update_nameservers", "restore", "set_auto_renew"):
        assert all(COVERAGE[operation].values()), operation


def test_the_table_and_the_man_page_are_up_to_date() -> None:
    """Run `make client` after a change of a client."""
    text = client_coverage.PAGE.read_text(encoding="utf-8")
    assert client_coverage.page(text) == text, "run make client"
    man_page = generate_subletctl.MAN_PAGE.read_text(encoding="utf-8")
    assert man_page == generate_subletctl.man_page(), "run make client"


@pytest.mark.whole
def test_make_client_writes_all_or_nothing(tmp_path: Path) -> None:
    root = Path(__file__).resolve().parents[2]
    for part in ("clients", "tools", "docs"):
        shutil.copytree(root / part, tmp_path / part)
    package = tmp_path / "clients/python/src/sublet_client"
    stale, command = package / "_sync.py", package / "cli/register.py"
    uses = 'uses=("get_auto_renew", "set_auto_renew"),'
    stale.write_text("# stale\n" + stale.read_text(encoding="utf-8"), encoding="utf-8")
    texts = {True: command.read_text(encoding="utf-8")}
    texts[False] = texts[True].replace(uses, "uses=(),")
    assert texts[False] != texts[True]
    for has_command in (False, True):
        command.write_text(texts[has_command], encoding="utf-8")
        ran = subprocess.run(
            [sys.executable, tmp_path / "tools/generate_client.py"],
            env=os.environ | {"PYTHONPATH": str(package.parent)},
            capture_output=True,
            text=True,
            check=False,
        )
        assert (ran.returncode == 0) is has_command, ran.stderr
        assert ("Give set_auto_renew a command" in ran.stderr) is not has_command
        assert stale.read_text(encoding="utf-8").startswith("# stale") is not has_command
