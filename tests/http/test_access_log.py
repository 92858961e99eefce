"""The line of a request: as any other line of the log with these values, in both forms; and no secret in it."""

import asyncio
import json
import re
from typing import Any

import msgspec
import pytest
import structlog
from hypothesis import given
from hypothesis import strategies as st

from sublet.config import Settings
from sublet.http.access_log import TOGETHER_MAX, Answered, access_log
from sublet.http.afterwards import Afterwards
from sublet.http.observe import Metrics
from sublet.secret import HIDDEN
from sublet.service.logs import configure_logs

TOKEN = "sublet_0123456789abcdefghijklmnopqrstuvwxyz"
ONE = Answered("GET", "/api/v1/me", "me", 200, 12.3, "a" * 32, 7, None)
ODD = Answered(
    "POST",
    "/a b/\N{LATIN SMALL LETTER E WITH ACUTE}=\"'\n\x1b[1m",
    "unknown",
    404,
    1000.0,
    "x=y",
    None,
    "not_found",
)
AT = re.compile(r"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d(\.\d{6})?Z")


def _write(settings: Settings, *answered: Answered) -> None:
    """Have lines written as for requests that are answered in one go."""

    async def answer() -> None:
        afterwards = Afterwards(Metrics(), access_log(settings))
        for each in answered:
            afterwards.tell(each, each.duration_ms / 1000)
        await asyncio.sleep(0)

    asyncio.run(answer())


def _as_any_other(settings: Settings, of: Answered) -> None:
    configure_logs(settings)
    values: dict[str, Any] = msgspec.structs.asdict(of)
    del values["level"], values["timestamp"]
    structlog.get_logger().info(**values)


@pytest.mark.usefixtures("logs_as_before")
@pytest.mark.parametrize("of", [ONE, ODD], ids=["plain", "odd"])
@pytest.mark.parametrize("log_format", ["text", "json"])
def test_it_is_as_any_other_line(log_format: str, of: Answered, capsys: pytest.CaptureFixture[str]) -> None:
    settings = Settings(log_format=log_format)
    _write(settings, of)
    ours = capsys.readouterr().err
    _as_any_other(settings, of)
    theirs = capsys.readouterr().err
    assert ours.count("\n") == theirs.count("\n") == 1
    if log_format == "json":
        mine, other = json.loads(ours), json.loads(theirs)
        assert AT.fullmatch(mine.pop("timestamp"))
        del other["timestamp"]
        assert mine == other
        return
    assert AT.sub("AT", ours, count=1) == AT.sub("AT", theirs, count=1)
    assert ours.startswith(AT.match(ours)[0])  # type: ignore[index]


@pytest.mark.parametrize("log_format", ["text", "json"])
@pytest.mark.parametrize("level", ["debug", "info", "warning", "error"])
def test_it_is_of_level_info(log_format: str, level: str, capsys: pytest.CaptureFixture[str]) -> None:
    _write(Settings(log_format=log_format, log_level=level), ONE)
    assert bool(capsys.readouterr().err) == (level in ("debug", "info"))


@given(path=st.text(st.characters(exclude_categories=())))
def test_it_is_one_line_whatever_the_path(path: str) -> None:
    with pytest.MonkeyPatch.context() as patch:
        lines: list[str] = []
        patch.setattr("sys.stderr.write", lines.append)
        for log_format in ("text", "json"):
            _write(
                Settings(log_format=log_format),
                Answered("GET", path + TOKEN, "unknown", 404, 100.0, "r", None, "not_found"),
            )
    assert len(lines) == 2
    for line in lines:
        assert line.split("\n") == [line[:-1], ""]
        assert TOKEN not in line
        assert HIDDEN in line


def test_lines_for_a_terminal_go_the_way_of_all_others(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("sys.stderr.isatty", lambda: True)
    with structlog.testing.capture_logs() as logs:
        access_log(Settings())([ONE])
    assert [(each["event"], each["path"], each["duration_ms"]) for each in logs] == [
        ("request", "/api/v1/me", 12.3)
    ]


def test_those_answered_in_one_go_are_written_together_and_none_is_lost() -> None:
    answered = [msgspec.structs.replace(ONE, user_id=number) for number in range(2 * TOGETHER_MAX + 1)]
    with pytest.MonkeyPatch.context() as patch:
        writes: list[str] = []
        patch.setattr("sys.stderr.write", writes.append)
        _write(Settings(log_format="json"), *answered)
    assert [each.count("\n") for each in writes] == [TOGETHER_MAX, TOGETHER_MAX, 1]
    assert all(each.endswith("\n") for each in writes)
    lines = [json.loads(line) for each in writes for line in each.splitlines()]
    assert [line["user_id"] for line in lines] == list(range(2 * TOGETHER_MAX + 1))
