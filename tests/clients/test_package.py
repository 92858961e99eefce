"""The clients as packages: they build with their licence, install from a clone, and the Python client is
small, locked and typed.
"""

import re
import shlex
import subprocess
import sys
import tarfile
import tomllib
import zipfile
from email import message_from_string
from pathlib import Path

import pytest
import yaml

ROOT = Path(__file__).resolve().parents[2]
CLIENT = ROOT / "clients/python"
PYTHON_CLIENTS = ("python", "terraform", "mcp")
WHEEL_BYTES_MAX = 200_000
DIRECT_MAX = 5
LICENCE = (ROOT / "LICENSE").read_text(encoding="utf-8")
HOLDER = "the Sublet contributors"


def build(project: Path, folder: Path) -> zipfile.ZipFile:
    command = [sys.executable, "-m", "flit_core.wheel", "--outdir", str(folder), str(project)]
    subprocess.run(command, check=True, capture_output=True)
    (wheel,) = folder.glob("*.whl")
    return zipfile.ZipFile(wheel)


@pytest.mark.parametrize("project", [".", *(f"clients/{each}" for each in PYTHON_CLIENTS)])
def test_every_wheel_has_the_licence_and_its_holder(project: str, tmp_path: Path) -> None:
    with build(ROOT / project, tmp_path) as packed:
        (path,) = (each for each in packed.namelist() if each.endswith("dist-info/METADATA"))
        about = message_from_string(packed.read(path).decode())
        assert (about["License-Expression"], about["Author"]) == ("Apache-2.0", HOLDER)
        assert packed.read(path.replace("METADATA", "licenses/LICENSE")).decode() == LICENCE


@pytest.mark.whole
def test_the_collection_of_ansible_has_the_licence_and_its_holder(tmp_path: Path) -> None:
    galaxy = Path(sys.executable).parent / "ansible-galaxy"
    command = [
        str(galaxy),
        "collection",
        "build",
        "--output-path",
        str(tmp_path),
        str(ROOT / "clients/ansible"),
    ]
    subprocess.run(command, check=True, capture_output=True)
    (archive,) = tmp_path.iterdir()
    with tarfile.open(archive) as packed:
        licence, manifest = packed.extractfile("LICENSE"), packed.extractfile("MANIFEST.json")
        assert licence is not None
        assert manifest is not None
        assert licence.read().decode() == LICENCE
        about = yaml.safe_load(manifest)["collection_info"]
    assert (about["license"], about["authors"]) == (["Apache-2.0"], [HOLDER])


def test_the_licence_is_apache_2_with_its_holder() -> None:
    assert LICENCE.split()[:4] == ["Apache", "License", "Version", "2.0,"]
    assert "END OF TERMS AND CONDITIONS" in LICENCE
    assert f"Copyright 2026 {HOLDER}\n" in LICENCE
    for each in (*PYTHON_CLIENTS, "ansible"):
        assert (ROOT / "clients" / each / "LICENSE").read_text(encoding="utf-8") == LICENCE


@pytest.mark.whole
def test_the_packages_of_the_readmes_install_from_a_clone(tmp_path: Path) -> None:
    """Every `pip install` of a README names folders of the clone.

    Their dependencies are installed already.
    """
    found: set[str] = set()
    for name in (*PYTHON_CLIENTS, "ansible"):
        text = (ROOT / "clients" / name / "README.md").read_text(encoding="utf-8")
        lines = re.findall(r"^\S*pip install (.*)$", text, re.MULTILINE)
        assert lines, name
        for line in lines:
            found |= {word for word in shlex.split(line) if word != "ansible-core"}
    assert all(each.startswith("./clients/") for each in found), found
    command = [sys.executable, "-m", "pip", "install", "--quiet", "--no-index", "--no-deps"]
    command += [
        "--no-build-isolation",
        "--target",
        str(tmp_path),
        *sorted({each.partition("[")[0] for each in found}),
    ]
    subprocess.run(command, check=True, capture_output=True, cwd=ROOT)
    assert {each.name for each in (tmp_path / "bin").iterdir()} == {
        *("subletctl", "terraform-provider-sublet", "sublet-mcp"),
    }


def test_the_wheel_is_small_typed_and_has_few_dependencies(tmp_path: Path) -> None:
    with build(CLIENT, tmp_path) as packed:
        assert "sublet_client/py.typed" in packed.namelist()
    (wheel,) = tmp_path.iterdir()
    assert wheel.stat().st_size <= WHEEL_BYTES_MAX
    project = tomllib.loads((CLIENT / "pyproject.toml").read_text(encoding="utf-8"))["project"]
    assert len(project["dependencies"] + project["optional-dependencies"]["cli"]) <= DIRECT_MAX


def test_the_client_does_not_import_the_server() -> None:
    for path in (CLIENT / "src").rglob("*.py"):
        text = path.read_text(encoding="utf-8")
        assert "import sublet\n" not in text
        assert "from sublet " not in text
        assert "from sublet." not in text
