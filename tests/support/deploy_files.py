"""The deployment files: their folder, the programs they need, and a parser of their `sublet` commands."""

from pathlib import Path
from typing import Any

import typer

from sublet.cli.main import app

DEPLOY = Path(__file__).parents[2] / "deploy"


def parse_command(words: list[str]) -> None:
    """Parse the words after `sublet`. Raise if a command or an option doesn't exist."""
    command: Any = typer.main.get_command(app)
    while hasattr(command, "get_command"):
        found = command.get_command(typer.Context(command), words[0])
        assert found is not None, f"there is no command {words}"
        command, words = found, words[1:]
    command.make_context(command.name, list(words))
