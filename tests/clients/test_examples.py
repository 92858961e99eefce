"""The programs in clients/python/examples run, and the commands of the README of `subletctl` as they are
printed.
"""

import os
import re
import shlex
import stat
import subprocess
import sys
from pathlib import Path

import pytest

from support.running_service import Registrant, RunningService
from support.subletctl import subletctl

CLIENT = Path(__file__).resolve().parents[2] / "clients/python"
EXAMPLES = CLIENT / "examples"
DS = "2372 13 2 1f987cc6583e92df0890718c42a1d3b1a1f4b4a6b2d8a1dd09a4c1d7f4d3e5a6"
NS = ("ns1.provider.example", "ns2.provider.example")
_, _, ABOUT_SUBLETCTL = (CLIENT / "README.md").read_text(encoding="utf-8").partition("\n## subletctl\n")
COMMANDS = [
    line
    for block in re.findall(r"^```sh\n(.*?)^```$", ABOUT_SUBLETCTL, re.DOTALL | re.MULTILINE)
    for line in block.splitlines()
    if line.startswith("subletctl ")
]


@pytest.fixture
def who(service: RunningService, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Registrant:
    service.add_domain("example.net", "--records", "on")
    found = service.add_user(credit_count=100, free_quota="20")
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("XDG_CONFIG_HOME", str(tmp_path))
    monkeypatch.setenv("PATH", f"{Path(sys.executable).parent}:{os.environ['PATH']}")
    monkeypatch.setenv("SUBLET_URL", service.base_url)
    monkeypatch.setenv("SUBLET_TOKEN", found.token)
    return found


def run(*command: str, text: str = "") -> str:
    done = subprocess.run(command, capture_output=True, text=True, input=text, check=False, timeout=300)
    assert done.returncode == 0, (command, done.stdout, done.stderr)
    return done.stdout


def example(name: str, *arguments: str) -> str:
    return run(sys.executable, str(EXAMPLES / name), *arguments)


def test_the_examples_run(who: Registrant, tmp_path: Path) -> None:
    assert "active" in example("register_and_wait.py", "one.example.net", *NS)
    assert "paid 10" in example("pay_a_quote.py", "two.example.net", "12")
    assert example("roll_a_key.py", "one.example.net", DS) == "2372\n"
    other = DS.replace("2372", "2373")
    assert example("roll_a_key.py", "one.example.net", other).split() == ["2372", "2373"]
    assert example("roll_a_key.py", "one.example.net", other, "--finish") == "2373\n"
    assert example("move_names.py", "example.net", *NS).count(": moved") == 2
    run("subletctl", "apply", "-f", str(EXAMPLES / "names.yaml"), "--yes")
    run("sh", str(EXAMPLES / "subletctl.sh"))
    assert "new secret" in example("rotate_token.py", "secret")
    assert stat.S_IMODE((tmp_path / "secret").stat().st_mode) == 0o600
    assert (tmp_path / "secret").read_text() != who.token
    assert {each.name for each in EXAMPLES.iterdir()} == {
        *("register_and_wait.py", "pay_a_quote.py", "roll_a_key.py", "move_names.py", "rotate_token.py"),
        *("names.yaml", "subletctl.sh"),
    }


def test_the_printed_commands_work(
    who: Registrant, service: RunningService, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    do = subletctl(service, who, monkeypatch)
    assert len(COMMANDS) == 26
    for line in COMMANDS:
        words = shlex.split(line)
        if words[1] == "keys" or words[2:3] == ["edit"]:
            # test_subletctl_keys.py and test_subletctl_records.py have their service and their editor.
            continue
        target = words[words.index(">") + 1] if ">" in words else None
        words = words[: words.index(">")] if ">" in words else words
        if words[1] == "login":  # its page needs a browser: test_subletctl.py
            words = [*words[:2], service.base_url, "--token"]
        if words[1] == "ds" and words[2] == "add":
            do("ds", "set", words[3], DS.replace("2372", "2371"))
        if words[1] == "renew":  # too early now
            service.clock.advance(days=340)
        shown = do(*words[1:], text=who.token).stdout
        if target is not None:
            (tmp_path / target).write_text(shown)
    assert "blog.example.net" in (tmp_path / "names.yaml").read_text()
