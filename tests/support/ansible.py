"""Run Ansible with the installed collection in a folder of a test."""

import json
import os
import shutil
import subprocess
import sys
from dataclasses import dataclass
from pathlib import Path
from typing import Any

COLLECTION = Path(__file__).resolve().parents[2] / "clients/ansible"


@dataclass(frozen=True, slots=True)
class Played:
    """The output of a playbook, and the results of its tasks in their order."""

    code: int
    text: str
    results: list[dict[str, Any]]

    @property
    def changes(self) -> list[bool]:
        """Return for each task whether it changed something."""
        return [bool(each["changed"]) for each in self.results]


class Ansible:
    """A folder with the collection, and the environment with the service's URL and token."""

    def __init__(self, folder: Path, url: str, token: str) -> None:
        self.folder = folder
        shutil.copytree(COLLECTION, folder / "ansible_collections/sublet/registry")
        self.environment = {
            **os.environ,
            "ANSIBLE_CALLBACK_RESULT_FORMAT": "json",
            "ANSIBLE_COLLECTIONS_PATH": str(folder),
            "ANSIBLE_HOME": str(folder / "home"),
            "ANSIBLE_LOCALHOST_WARNING": "false",
            "ANSIBLE_NOCOLOR": "1",
            "ANSIBLE_PIPELINING": "1",
            "ANSIBLE_PYTHON_INTERPRETER": sys.executable,
            "LC_ALL": "C.UTF-8",
            "PYTHONDONTWRITEBYTECODE": "",
            "SUBLET_TOKEN": token,
            "SUBLET_URL": url,
        }

    def run(self, command: str, *words: str, **variables: str) -> subprocess.CompletedProcess[str]:
        """Run a command of Ansible."""
        found = shutil.which(command, path=str(Path(sys.executable).parent))
        assert found is not None, "Ansible is not installed. Run `make .venv/dev.stamp`."
        return subprocess.run(
            [found, *words],
            cwd=self.folder,
            env={**self.environment, **variables},
            capture_output=True,
            text=True,
            check=False,
        )

    def play(self, playbook: str, *options: str) -> Played:
        """Run a playbook."""
        path = self.folder / "names.yml"
        path.write_text(playbook, encoding="utf-8")
        done = self.run("ansible-playbook", "-v", *options, str(path))
        return Played(done.returncode, done.stdout + done.stderr, _results(done.stdout))


def _results(text: str) -> list[dict[str, Any]]:
    """Return the results that `-v` prints after each task."""
    decoder = json.JSONDecoder()
    return [decoder.raw_decode(each)[0] for each in text.split("=> ")[1:] if each.startswith("{")]
