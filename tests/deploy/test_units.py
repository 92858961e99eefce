"""The units of systemd: well formed, hardened, and they name only commands and settings that there are."""

import configparser
import re
import shlex
import shutil
import subprocess
import sys
from collections.abc import Iterator
from dataclasses import fields
from pathlib import Path

import pytest

from sublet.config import PRIMARY_KEY_VARIABLE, Settings, load_settings
from support.deploy_files import DEPLOY, parse_command
from support.programs import find_program

SYSTEMD = DEPLOY / "systemd"
SERVICES = sorted(SYSTEMD.glob("*.service"))
SUBLET = "/opt/sublet/bin/sublet"
EXPOSURE_MAX = 20
"""Tenths, of 100: `systemd-analyze security` calls up to 4.0 medium, from 7.0 on exposed."""


def directives(path: Path) -> Iterator[tuple[str, str]]:
    """Give each line `Name=value` of a unit."""
    for line in path.read_text(encoding="utf-8").splitlines():
        name, separator, value = line.partition("=")
        if separator and not line.startswith("#"):
            yield name, value


def variables() -> set[str]:
    return {f"SUBLET_{field.name.upper()}" for field in fields(Settings)} | {"SUBLET_CONFIG"}


@pytest.fixture
def units(tmp_path: Path) -> Path:
    """The units in a folder, with the `sublet` of these tests, which is there."""
    executable = Path(sys.executable).parent / "sublet"
    assert executable.exists()
    for path in SYSTEMD.iterdir():
        if path.suffix in (".service", ".socket", ".timer"):
            text = path.read_text(encoding="utf-8").replace(SUBLET, str(executable))
            (tmp_path / path.name).write_text(text, encoding="utf-8")
    return tmp_path


def analyze(*words: str) -> subprocess.CompletedProcess[str]:
    command = [find_program("systemd-analyze"), *words]
    return subprocess.run(command, capture_output=True, text=True, check=False, timeout=180)


def test_systemd_accepts_every_unit(units: Path) -> None:
    paths = [str(path) for path in sorted(units.iterdir())]
    assert len(paths) >= 9
    done = analyze("verify", "--man=no", *paths)
    assert done.returncode == 0, done.stderr
    # Of other units of the machine it may complain as well; of ours it must not.
    assert not re.search(r"^(\S*/)?sublet", done.stderr, re.MULTILINE), done.stderr


@pytest.mark.parametrize("name", [path.name for path in SERVICES])
def test_the_exposure_of_a_service_is_low(units: Path, name: str) -> None:
    done = analyze(
        "security", "--offline=yes", "--no-pager", f"--threshold={EXPOSURE_MAX}", str(units / name)
    )
    assert done.returncode == 0, done.stdout[-300:] + done.stderr


def test_the_exposure_stays_low_with_the_drop_in_for_port_53(units: Path) -> None:
    folder = units / "sublet.service.d"
    folder.mkdir()
    shutil.copy(SYSTEMD / "port-53.conf", folder)
    path = str(units / "sublet.service")
    done = analyze("security", "--offline=yes", "--no-pager", f"--threshold={EXPOSURE_MAX}", path)
    assert done.returncode == 0, done.stdout[-300:] + done.stderr
    assert "Service has elevated networking privileges" in done.stdout


@pytest.mark.parametrize("path", SERVICES, ids=lambda path: path.name)
def test_a_service_starts_an_existing_command(path: Path) -> None:
    started = [value for name, value in directives(path) if name == "ExecStart"]
    assert len(started) == 1
    words = shlex.split(started[0])
    if words[0] == "/bin/sh":
        words = shlex.split(re.sub(r"\$\([^)]*\)", "6", words[-1].removeprefix("exec ")))
    assert words[0] == SUBLET
    parse_command(words[1:])


def test_a_missing_command_fails_the_test() -> None:
    with pytest.raises(AssertionError, match="no command"):
        parse_command(["serves"])
    with pytest.raises(Exception, match="--worker"):
        parse_command(["serve", "--worker", "2"])


def test_deployment_files_name_existing_settings_only() -> None:
    files = [path for path in DEPLOY.rglob("*") if path.is_file()]
    assert len(files) > 10
    for path in files:
        text = path.read_text(encoding="utf-8")
        for name in re.findall(r"\bSUBLET_[A-Z_]+", text):
            assert name in variables() or name.startswith(PRIMARY_KEY_VARIABLE), f"{path.name}: {name}"
        if path.suffix == ".toml":
            load_settings(path, {})


def test_users_and_folders_match_the_units() -> None:
    sysusers = (SYSTEMD / "sublet.sysusers.conf").read_text(encoding="utf-8")
    known = set(re.findall(r"^u (\S+) ", sysusers, re.MULTILINE))
    assert {value for path in SERVICES for name, value in directives(path) if name == "User"} == known
    tmpfiles = (SYSTEMD / "sublet.tmpfiles.conf").read_text(encoding="utf-8")
    rows = [line.split() for line in tmpfiles.splitlines() if not line.startswith("#")]
    assert {owner for *_, owner, _group in rows} <= known | {"root"}
    writable = {
        value for path in SERVICES for name, value in directives(path) if name == "ReadWritePaths"
    } | {
        f"/var/lib/{value}"
        for path in SERVICES
        for name, value in directives(path)
        if name == "StateDirectory"
    }
    assert writable <= {row[1] for row in rows}


def test_systemd_creates_users_and_folders(tmp_path: Path) -> None:
    sysusers, tmpfiles = find_program("systemd-sysusers"), find_program("systemd-tmpfiles")
    (tmp_path / "etc").mkdir()
    for words in (
        [sysusers, f"--root={tmp_path}", str(SYSTEMD / "sublet.sysusers.conf")],
        [tmpfiles, f"--root={tmp_path}", "--create", "--dry-run", str(SYSTEMD / "sublet.tmpfiles.conf")],
    ):
        if "--dry-run" in words and "--dry-run" not in analyze_help(tmpfiles):
            words.remove("--dry-run")
        done = subprocess.run(words, capture_output=True, text=True, check=False, timeout=180)
        assert done.returncode == 0, (words, done.stderr)
    made = configparser.ConfigParser(delimiters=":", allow_no_value=True)
    made.read_string("[passwd]\n" + (tmp_path / "etc" / "passwd").read_text(encoding="utf-8"))
    assert {"sublet", "sublet-api", "sublet-dns"} <= set(made["passwd"])


def analyze_help(program: str) -> str:
    return subprocess.run([program, "--help"], capture_output=True, text=True, check=False).stdout


@pytest.mark.parametrize("path", SERVICES, ids=lambda path: path.name)
def test_services_are_hardened_alike(path: Path) -> None:
    """What one service may do more than the API is named here."""
    more = {
        "sublet.service": {("SystemCallFilter", "setpriority")},
        "sublet-worker.service": {("SystemCallFilter", "setpriority")},
        "sublet-dns.service": {
            ("CapabilityBoundingSet", "CAP_NET_BIND_SERVICE"),
            ("AmbientCapabilities", "CAP_NET_BIND_SERVICE"),
        },
        "sublet-backup.service": {("PrivateNetwork", "yes"), ("RestrictAddressFamilies", "AF_UNIX")},
    }
    assert hardening(path) - hardening(SYSTEMD / "sublet-api.service") == more.get(path.name, set())


def hardening(path: Path) -> set[tuple[str, str]]:
    text = path.read_text(encoding="utf-8").split("NoNewPrivileges=", 1)[1].split("\n[Install]")[0]
    lines = ("NoNewPrivileges=" + text).splitlines()
    pairs = (line.partition("=") for line in lines if line and not line.startswith("#"))
    return {(name, value) for name, _, value in pairs}
