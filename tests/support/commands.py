"""Run the operator's commands in this process."""

import json
from pathlib import Path
from typing import Any

from typer.testing import CliRunner

from sublet.cli.main import app


def run(url: str, *words: str | Path, expect: int = 0) -> str:
    """Run a command on a registry, and return what it prints on both streams. `expect` is its exit code."""
    return str(_run(url, *words, expect=expect).output)


def answer(url: str, *words: str | Path, expect: int = 0) -> Any:
    """Run a command with --json on a registry, and return its value. `expect` is its exit code."""
    return json.loads(_run(url, *words, "--json", expect=expect).stdout)


def _run(url: str, *words: str | Path, expect: int) -> Any:
    done = CliRunner().invoke(app, [str(word) for word in words], env={"SUBLET_DATABASE_URL": url})
    assert done.exit_code == expect, (words, done.output, done.exception)
    return done
