"""The Python client as a package: small, few dependencies, locked, typed, and a bare import is quick."""

import subprocess
import sys
import tomllib
import zipfile
from pathlib import Path

import supply_chain

ROOT = Path(__file__).resolve().parents[2]
CLIENT = ROOT / "clients/python"
WHEEL_BYTES_MAX = 200_000
DIRECT_MAX = 5


def test_the_wheel_is_small_typed_and_has_few_dependencies(tmp_path: Path) -> None:
    subprocess.run(
        [sys.executable, "-m", "flit_core.wheel", "--outdir", tmp_path, CLIENT],
        check=True,
        capture_output=True,
    )
    (wheel,) = tmp_path.glob("sublet_client-*.whl")
    assert wheel.stat().st_size <= WHEEL_BYTES_MAX
    with zipfile.ZipFile(wheel) as packed:
        assert "sublet_client/py.typed" in packed.namelist()
    project = tomllib.loads((CLIENT / "pyproject.toml").read_text(encoding="utf-8"))["project"]
    assert len(project["dependencies"] + project["optional-dependencies"]["cli"]) <= DIRECT_MAX


def test_the_lock_has_hashes_and_names_no_index() -> None:
    packages = supply_chain.read_lock(CLIENT / "requirements.lock")
    assert all(each.hashes for each in packages)
    assert {"httpx2", "msgspec"} <= {each.name for each in packages}
    assert "://" not in (CLIENT / "requirements.lock").read_text(encoding="utf-8")


def test_the_client_does_not_import_the_server() -> None:
    for path in (CLIENT / "src").rglob("*.py"):
        text = path.read_text(encoding="utf-8")
        assert "import sublet\n" not in text
        assert "from sublet " not in text
        assert "from sublet." not in text
