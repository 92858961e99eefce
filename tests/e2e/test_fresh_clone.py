"""What a stranger does: clone, install as the README says, start, and paste the lines
that the demo prints.
"""

import json
import os
import re
import signal
import subprocess
import sys
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

import sublet
from support.free_ports import free_port

ROOT = Path(__file__).resolve().parents[2]
LINE_SECONDS = 180
pytestmark = pytest.mark.slow


@dataclass(frozen=True, slots=True)
class Clone:
    """A clone of the repository, and the folder of the programs of its own virtual environment."""

    folder: Path
    programs: Path

    def run(self, *words: str, cwd: Path, **settings: str) -> "subprocess.CompletedProcess[str]":
        """Run one of its programs with only the settings given, and return what it printed."""
        return subprocess.run(
            [str(self.programs / words[0]), *words[1:]],
            cwd=cwd,
            env=environment(**settings),
            capture_output=True,
            text=True,
            check=False,
            timeout=LINE_SECONDS,
        )


def environment(**settings: str) -> dict[str, str]:
    """Return the environment of a stranger: nothing of the tests' own Python in it."""
    foreign = ("PYTHON", "SUBLET_", "VIRTUAL_ENV", "COV_", "COVERAGE_")
    return {name: value for name, value in os.environ.items() if not name.startswith(foreign)} | settings


@pytest.fixture(scope="module")
def clone(tmp_path_factory: pytest.TempPathFactory) -> Clone:
    folder = tmp_path_factory.mktemp("fresh") / "sublet"
    programs = folder.parent / "venv" / "bin"
    pip = [str(programs / "pip"), "--disable-pip-version-check", "--quiet", "install"]
    for command in (
        ["git", "clone", "--quiet", str(ROOT), str(folder)],
        [sys.executable, "-m", "venv", str(programs.parent)],
        [*pip, "--no-deps", "--require-hashes", "-r", "requirements.lock"],
        [*pip, "."],
    ):
        done = subprocess.run(
            command,
            cwd=folder if folder.exists() else folder.parent,
            env=environment(),
            capture_output=True,
            text=True,
            check=False,
            timeout=300,
        )
        assert done.returncode == 0, (command, done.stdout, done.stderr)
    return Clone(folder, programs)


@pytest.mark.whole
def test_the_installed_package_is_complete(clone: Clone, tmp_path: Path) -> None:
    """Installed, not linked: code and migrations come from site-packages, from any folder."""
    code = (
        "import sublet, sublet.migrations.versions.v0022_schema as m; print(sublet.__file__); "
        "print(m.__file__)"
    )
    where = clone.run("python", "-c", code, cwd=tmp_path).stdout.split()
    assert len(where) == 2
    assert all(Path(each).is_relative_to(clone.programs.parent / "lib") for each in where)

    assert sublet.__version__ in clone.run("sublet", "--version", cwd=tmp_path).stdout
    url = f"sqlite:///{tmp_path}/registry.db"
    told = clone.run("sublet", "settings", "--json", cwd=tmp_path, SUBLET_DATABASE_URL=url)
    assert url in told.stdout
    assert json.loads(told.stdout)
    made = clone.run("sublet", "init", cwd=tmp_path, SUBLET_DATABASE_URL=url)
    assert made.returncode == 0, made.stderr
    well = clone.run("sublet", "doctor", "--json", cwd=tmp_path, SUBLET_DATABASE_URL=url)
    assert well.returncode == 0, well.stderr


@pytest.mark.whole
def test_the_installed_package_serves(clone: Clone, tmp_path: Path) -> None:
    http, dns = free_port(), free_port()
    settings = {
        "SUBLET_DATABASE_URL": f"sqlite:///{tmp_path}/registry.db",
        "SUBLET_HTTP_LISTEN": f"127.0.0.1:{http}",
        "SUBLET_DNS_LISTEN": f"127.0.0.1:{dns}",
    }
    assert clone.run("sublet", "init", cwd=tmp_path, **settings).returncode == 0
    with subprocess.Popen(
        [str(clone.programs / "sublet"), "serve"], cwd=tmp_path, env=environment(**settings)
    ) as serving:
        try:
            ready = ["curl", "-sf", "--retry", "40", "--retry-connrefused", "--retry-delay", "1"]
            subprocess.run([*ready, f"http://127.0.0.1:{http}/readyz"], check=True, timeout=LINE_SECONDS)
            document = subprocess.run(
                ["curl", "-sf", f"http://127.0.0.1:{http}/openapi.json"],
                check=True,
                timeout=LINE_SECONDS,
                capture_output=True,
            )
            assert "/subdomains" in json.loads(document.stdout)["paths"]
        finally:
            serving.send_signal(signal.SIGTERM)
        assert serving.wait(60) == 0


def demo_arguments(tmp_path: Path) -> dict[str, Any]:
    """Return what `subprocess` needs to run the demo."""
    settings = {
        "SUBLET_HTTP_LISTEN": f"127.0.0.1:{free_port()}",
        "SUBLET_DNS_LISTEN": f"127.0.0.1:{free_port()}",
        "SUBLET_UPDATE_LISTEN": f"127.0.0.1:{free_port()}",
        "SUBLET_DATABASE_URL": f"sqlite:///{tmp_path}/demo.db",
    }
    command = [sys.executable, str(ROOT / "demo" / "run.py")]
    return {"args": command, "cwd": ROOT, "env": environment(**settings), "text": True}


@pytest.fixture
def demo(tmp_path: Path) -> Iterator[tuple["subprocess.Popen[str]", str]]:
    """The running demo, and everything that it prints up to the line that says how to stop it."""
    with subprocess.Popen(**demo_arguments(tmp_path), stdout=subprocess.PIPE) as process:
        try:
            printed = ""
            assert process.stdout is not None
            for line in process.stdout:
                printed += line
                if "Stop with Ctrl-C" in line:
                    break
            yield process, printed
        finally:
            process.terminate()


@pytest.mark.whole
def test_a_demo_that_fails_leaves_no_service_behind(tmp_path: Path) -> None:
    with Path("/dev/full").open("w") as full:
        # It waits until no process has stderr.
        ended = subprocess.run(
            **demo_arguments(tmp_path), stdout=full, stderr=subprocess.PIPE, check=False, timeout=LINE_SECONDS
        )
    assert ended.returncode != 0
    assert "No space left on device" in ended.stderr


def lines_to_paste(printed: str) -> list[str]:
    """Return the commands among what the demo prints: the lines that are set in,
    without those that explain.
    """
    indented = [line.strip() for line in printed.splitlines() if line.startswith("  ")]
    return [line for line in indented if line and not line.startswith("#")]


def test_the_lines_that_the_demo_prints_work_as_printed(
    demo: tuple["subprocess.Popen[str]", str], tmp_path: Path
) -> None:
    process, printed = demo
    lines = lines_to_paste(printed)
    separator = "=-=-=-="
    script = "".join(f"{line}\necho; echo {separator} $?\n" for line in lines)
    pasted = subprocess.run(
        ["bash"],
        input=script,
        cwd=tmp_path,
        env=environment(),
        capture_output=True,
        text=True,
        check=True,
        timeout=LINE_SECONDS,
    )
    parts = re.split(rf"^{separator} (\d+)\n", pasted.stdout, flags=re.MULTILINE)
    outputs, statuses = parts[:-1:2], parts[1::2]
    assert statuses == ["0"] * len(lines), pasted.stdout + pasted.stderr
    told = dict(zip(lines, outputs, strict=True))

    def answers(part: str) -> list[dict[str, object]]:
        return [json.loads(text) for line, text in told.items() if part in line and line.startswith("curl")]

    assert [each["ok"] for each in answers("/me")] == [True]
    assert [each["credit_balance"] for each in answers("/credits")] == [100]
    free, site, quote, paid = answers("/subdomains ")
    assert free["ok"] is True
    assert free["charged_credits"] == 0
    assert free["subdomain"]["status"] == "active"  # type: ignore[index]
    referral, alias, challenge = (text for line, text in told.items() if line.startswith("dig"))
    assert site["subdomain"]["status"] == "active"  # type: ignore[index]
    assert re.search(
        r"^www\.site\.example\.test\.\s+300\s+IN\s+CNAME\s+example\.github\.io\.", alias, re.MULTILINE
    )
    assert re.search(
        r'^_acme-challenge\.site\.example\.test\.\s+60\s+IN\s+TXT\s+"challenge"', challenge, re.MULTILINE
    )
    assert re.search(
        r"^blog\.example\.test\.\s+\d+\s+IN\s+NS\s+ns1\.provider\.example\.", referral, re.MULTILINE
    )
    assert quote["error"] == "payment_confirmation_required"
    assert quote["quote"]["price"] == 5  # type: ignore[index]
    assert paid["charged_credits"] == 5
    (ticket,) = answers("/support/tickets")
    assert re.fullmatch(r"T-\d{6}", ticket["ticket"]["ticket_number"])  # type: ignore[index]
    listed = next(text for line, text in told.items() if line.endswith("ticket list"))
    assert ticket["ticket"]["ticket_number"] in listed  # type: ignore[index]
    healthy = next(text for line, text in told.items() if line.endswith("doctor"))
    assert healthy.strip()

    process.send_signal(signal.SIGTERM)
    assert process.wait(60) == 0
