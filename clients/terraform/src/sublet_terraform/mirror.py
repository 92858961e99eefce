"""A folder from which `terraform init` installs the provider: a filesystem mirror in the unpacked layout."""

import platform
import sys
from importlib.metadata import version
from pathlib import Path

SOURCE = "registry.terraform.io/sublet/sublet"
ARCHITECTURES = {"x86_64": "amd64", "aarch64": "arm64"}


def write_mirror(folder: Path) -> Path:
    """Write the provider of this Python environment into a mirror for this machine's platform, and return the
    path of its program.

    The program starts this environment's Python, so the mirror needs the environment, and doesn't contain it.
    """
    machine = platform.machine().lower()
    target = f"{platform.system().lower()}_{ARCHITECTURES.get(machine, machine)}"
    number = version("sublet-terraform")
    program = folder / SOURCE / number / target / f"terraform-provider-sublet_v{number}"
    program.parent.mkdir(parents=True, exist_ok=True)
    # Not `#!` and the path of Python, which may be longer than the system allows, or have spaces.
    command = f'exec "{sys.executable}" -m sublet_terraform.provider "$@"'
    program.write_text(f"#!/bin/sh\n{command}\n", encoding="utf-8")
    program.chmod(0o755)
    return program
