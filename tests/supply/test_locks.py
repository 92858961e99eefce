"""The locks install next year too: releases that are newer than a lock change nothing."""

import os
import re
import shutil
import subprocess
import sys
import zipfile
from email.message import Message
from email.parser import Parser
from pathlib import Path

import pytest
from supply_chain import ROOT

LOCKS = ("requirements.lock", "requirements-dev.lock")
NEWER = "9999.0"
OURS = ("sublet", "sublet-client", "sublet-mcp", "sublet-terraform")
INSTALL_SECONDS = 300
pytestmark = pytest.mark.slow


def run(*words: str | Path, cwd: Path = ROOT, **settings: str) -> str:
    """Run a command and return what it printed; fail with all of that if the command fails."""
    done = subprocess.run(
        [str(word) for word in words],
        cwd=cwd,
        env=os.environ | settings,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        check=False,
        timeout=INSTALL_SECONDS,
    )
    assert done.returncode == 0, (words, done.stdout)
    return done.stdout


def metadata_of(wheel: Path) -> Message:
    """Return the metadata of a wheel: its name, its requirements and its extras."""
    with zipfile.ZipFile(wheel) as archive:
        (name,) = (each for each in archive.namelist() if re.fullmatch(r"[^/]+\.dist-info/METADATA", each))
        return Parser().parsestr(archive.read(name).decode("utf-8"))


def write_newer_release(wheel: Path) -> None:
    """Write a wheel of version 9999.0 beside a wheel, with the same requirements and extras, and without
    code.
    """
    metadata = metadata_of(wheel)
    del metadata["Version"]
    metadata["Version"] = NEWER
    stem = f"{wheel.name.split('-')[0]}-{NEWER}"
    info = f"{stem}.dist-info"
    with zipfile.ZipFile(wheel.parent / f"{stem}-py3-none-any.whl", "w") as archive:
        archive.writestr(f"{info}/METADATA", metadata.as_string())
        archive.writestr(f"{info}/WHEEL", "Wheel-Version: 1.0\nRoot-Is-Purelib: true\nTag: py3-none-any\n")
        archive.writestr(f"{info}/RECORD", "")


@pytest.fixture(scope="module")
def index(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A package index in a folder: every locked package, and a newer release of each."""
    folder = tmp_path_factory.mktemp("index")
    for lock in LOCKS:
        pip = (sys.executable, "-m", "pip", "--disable-pip-version-check", "--quiet")
        run(*pip, "download", "--no-deps", "--require-hashes", "-r", lock, "-d", folder)
    for wheel in sorted(folder.glob("*.whl")):
        write_newer_release(wheel)
        name = re.sub(r"[-_.]+", "-", wheel.name.split("-")[0]).lower()
        page = folder / "simple" / name / "index.html"
        page.parent.mkdir(parents=True)
        own = folder.glob(f"{wheel.name.split('-')[0]}-*.whl")
        page.write_text("".join(f'<a href="../../{each.name}">{each.name}</a>\n' for each in own))
    return folder / "simple"


@pytest.fixture
def clone(tmp_path: Path) -> Path:
    """A copy of what the Makefile's set-up reads, with a virtual environment whose pip a test chooses."""
    folder = tmp_path / "sublet"
    folder.mkdir()
    for name in ("Makefile", "pyproject.toml", "README.md", "LICENSE", *LOCKS):
        shutil.copy(ROOT / name, folder)
    for name in ("src", "clients", "tests/npm"):
        shutil.copytree(ROOT / name, folder / name, ignore=shutil.ignore_patterns("__pycache__"))
    run(sys.executable, "-m", "venv", folder / ".venv")
    return folder


def use_only(index: Path) -> dict[str, str]:
    """Return settings that hide this machine's own settings of pip, and name the index."""
    own = {name: "" for name in os.environ if name.startswith("PIP_")}
    return own | {"PIP_CONFIG_FILE": os.devnull, "PIP_INDEX_URL": index.as_uri()}


@pytest.mark.whole
@pytest.mark.parametrize(
    "pip",
    [
        pytest.param("pip==23.0.1", id="pip of Debian 12", marks=pytest.mark.whole),
        pytest.param("pip", id="newest pip"),
    ],
)
def test_make_installs_the_locked_versions_though_each_has_a_newer_release(
    index: Path, clone: Path, pip: str
) -> None:
    programs = clone / ".venv/bin"
    run(programs / "pip", "--disable-pip-version-check", "--quiet", "install", "--upgrade", pip)
    run("make", ".venv/dev.stamp", cwd=clone, **use_only(index))
    own = [word for name in OURS for word in ("--exclude", name)]
    frozen = run(programs / "pip", "--disable-pip-version-check", "freeze", *own)
    installed = {line.split("==")[0].lower(): line.split("==")[1] for line in frozen.splitlines()}
    assert len(installed) > 40
    assert NEWER not in installed.values()
    run(programs / "sublet", "--version")


def test_the_build_backend_is_the_locked_one() -> None:
    """`pip install .` and `make build` use the same version, which requires no other package."""
    (required,) = re.findall(
        r'^requires = \["([^"]+)"\]', (ROOT / "pyproject.toml").read_text(), re.MULTILINE
    )
    name, version = required.split("==")
    assert re.search(
        rf"^{name.replace('_', '-')}=={version} ", (ROOT / "requirements-dev.lock").read_text(), re.MULTILINE
    )
