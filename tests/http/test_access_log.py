"""The log line of a request: its values in both formats, one line, and no secret in it."""

import json
import re
import sys
from contextlib import redirect_stderr
from io import StringIO
from typing import Any

import pytest
import structlog
from hypothesis import given
from hypothesis import strategies as st

from sublet.config import Settings
from sublet.http.request_log import LoggedRequest, choose_request_log
from sublet.secret import HIDDEN
from sublet.service.logs import configure_logs, remove_secrets, render_text

TOKEN = "sublet_0123456789abcdefghijklmnopqrstuvwxyz"
VALUES: dict[str, Any] = {
    "method": "GET",
    "path": '/a b/\N{LATIN SMALL LETTER E WITH ACUTE}="\n\x1b[1m',
    "endpoint": "unknown",
    "status": 404,
    "duration_ms": 12.3,
    "user_id": None,
    "error": "not_found",
}
AT = re.compile(r"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d\.\d{6}Z")


def log(settings: Settings) -> None:
    configure_logs(settings)
    choose_request_log(settings)(LoggedRequest(**VALUES, request_id="a" * 32))


@pytest.mark.usefixtures("logs_as_before")
def test_json(capsys: pytest.CaptureFixture[str]) -> None:
    log(Settings(log_format="json"))
    written = capsys.readouterr().err
    assert written.count("\n") == 1
    line = json.loads(written)
    assert AT.fullmatch(line.pop("timestamp"))
    filled = {name: value for name, value in VALUES.items() if value is not None}
    assert line == filled | {"event": "request", "level": "info", "request_id": "a" * 32}


@pytest.mark.usefixtures("logs_as_before")
def test_text(capsys: pytest.CaptureFixture[str]) -> None:
    log(Settings(log_format="text"))
    written = capsys.readouterr().err
    assert AT.sub("AT", written) == (
        "AT [info     ] request                        duration_ms=12.3 endpoint=unknown error=not_found "
        f"method=GET path={VALUES['path']!r} request_id={'a' * 32} status=404\n"
    )


@pytest.mark.usefixtures("logs_as_before")
def test_a_terminal_gets_no_escape_sequence_of_a_client(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(sys.stderr, "isatty", lambda: True)
    configure_logs(Settings())
    choose_request_log(Settings())(LoggedRequest(**VALUES | {"path": "/\x1b]0;a\x07"}, request_id="a"))
    written = capsys.readouterr().err
    assert r"/\x1b]0;a\x07" in written
    assert "\x1b]" not in written


@given(path=st.text(st.characters(exclude_categories=())))
@pytest.mark.parametrize("log_format", ["text", "json"])
def test_the_path_of_a_request_is_one_line_without_secrets(log_format: str, path: str) -> None:
    with redirect_stderr(StringIO()) as written:
        asked = LoggedRequest(**VALUES | {"path": path + TOKEN}, request_id="a")
        choose_request_log(Settings(log_format=log_format))(asked)
    line = written.getvalue()
    assert line.count("\n") == 1
    assert "\x1b" not in line
    assert TOKEN not in line
    assert HIDDEN in line


@given(path=st.text(st.characters(exclude_categories=())))
def test_an_event_is_one_line_for_any_path(path: str) -> None:
    for render in (render_text, structlog.processors.JSONRenderer()):
        line = remove_secrets(None, "info", render(None, "info", {"event": "request", "path": path + TOKEN}))
        assert "\n" not in line
        assert "\x1b" not in line
        assert TOKEN not in line
        assert HIDDEN in line
