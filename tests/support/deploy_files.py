"""The deployment files: their folder, the programs they need, and a parser of their `sublet` commands."""

import shutil
from pathlib import Path
from typing import Any

import pytest
import typer

from sublet.cli.main import app

DEPLOY = Path(__file__).parents[2] / "deploy"


def find_program(name: str) -> str:
    """Return the path of a program; skip the test if it isn't installed."""
    found = shutil.which(name) or shutil.which(name, path="/usr/bin:/usr/sbin:/bin:/sbin")
    if found is None:
        pytest.skip(f"{name} is not installed")
    return found


def parse_command(words: list[str]) -> None:
    """Parse the words after `sublet`. Raise if a command or an option doesn't exist."""
    command: Any = typer.main.get_command(app)
    while hasattr(command, "get_command"):
        found = command.get_command(typer.Context(command), words[0])
        assert found is not None, f"there is no command {words}"
        command, words = found, words[1:]
    command.make_context(command.name, list(words))
