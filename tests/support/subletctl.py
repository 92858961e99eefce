"""Run `subletctl` in the process of a test."""

import json
import re
import sys
from collections.abc import Callable
from typing import Any

import httpx2
import pytest
from click.testing import CliRunner, Result

from sublet_client.cli.main import root
from support.http_clients import NO_TLS
from support.running_service import Registrant, RunningService

Run = Callable[..., Result]
PROGRAM = [sys.executable, "-m", "sublet_client.cli.main"]
"""The command for a process of its own."""


def subletctl(service: RunningService, who: Registrant, monkeypatch: pytest.MonkeyPatch) -> Run:
    """Return a function that runs a command without a terminal, for the user `who`, and
    checks its exit code.
    """
    monkeypatch.setenv("SUBLET_URL", service.base_url)
    monkeypatch.setenv("SUBLET_TOKEN", who.token)
    # Connections of this machine need no certificates, and to load those of the system takes long.
    defaults: dict[str, object] = {**(httpx2.Client.__init__.__kwdefaults__ or {}), "verify": NO_TLS}
    monkeypatch.setattr(httpx2.Client.__init__, "__kwdefaults__", defaults)

    def do(*arguments: str, exit_code: int = 0, text: str | None = None) -> Result:
        done = CliRunner().invoke(root, list(arguments), input=text)
        assert done.exit_code == exit_code, (arguments, done.output, done.exception)
        if exit_code not in (0, 2):
            assert "Next: " in done.stderr
            assert not re.search(
                r"\b(GET|PUT|POST|PATCH|DELETE) | NAME\b(?<!--profile NAME)|COMMAND", done.stderr
            ), done.stderr
        return done

    return do


def as_json(done: Result) -> Any:
    """Return the JSON that a command printed."""
    return json.loads(done.stdout)
