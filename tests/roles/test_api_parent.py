"""The parent of processes: how it handles children that exit, ignore SIGTERM or can't be started."""

import asyncio
import socket
from collections.abc import Callable, Iterable
from itertools import chain, repeat
from typing import Any

import pytest
from structlog.testing import capture_logs

from sublet.service import api_parent
from sublet.service.api_parent import Child, supervise
from support.waiting import wait_until

READY_THEN_SLEEP = 'printf ready >&"$0"; exec sleep 60'
DIES = "exit 7"
IGNORES_TERM = 'trap "" TERM; printf ready >&"$0"; while :; do sleep 0.05; done'


class Scripts:
    """Starts one shell script after the other, each with its channel as descriptor `$0`; None: it can't be
    started.
    """

    def __init__(self, scripts: Iterable[str | None]) -> None:
        self._scripts = iter(scripts)
        self.started: list[int] = []
        self.living: set[int] = set()

    async def start(self) -> Child:
        script = next(self._scripts)
        if script is None:
            raise OSError("no more processes")
        ours, theirs = socket.socketpair()
        ours.setblocking(False)
        with theirs:
            fd = theirs.fileno()
            process = await asyncio.create_subprocess_exec("bash", "-c", script, str(fd), pass_fds=(fd,))
        self.started.append(process.pid)
        self.living.add(process.pid)
        return Child(process, ours, lambda: self.living.discard(process.pid))


def supervised(
    scripts: Scripts, until: Callable[[list[Any]], bool], *, replace_when_ready: bool = False
) -> list[Any]:
    """Supervise one process until the log is as wanted, and return the log. No process is left."""

    async def run() -> None:
        stop, replace = asyncio.Event(), asyncio.Event()
        on_ready = replace.set if replace_when_ready else lambda: None
        supervising = asyncio.create_task(supervise(scripts.start, 1, stop, replace, on_ready))
        await asyncio.to_thread(wait_until, lambda: until(logs))
        stop.set()
        await supervising

    with capture_logs() as logs:
        asyncio.run(run())
    assert scripts.living == set()
    return logs


def events(logs: list[Any], name: str) -> list[Any]:
    return [each for each in logs if each["event"] == name]


def test_a_process_that_exits_is_restarted_after_a_pause(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(api_parent, "PAUSE_SECONDS", 0.01)
    logs = supervised(Scripts(repeat(DIES)), lambda logs: len(events(logs, "api_process_died")) >= 3)
    died = events(logs, "api_process_died")
    assert {(each["exit_code"], each["again_in_seconds"]) for each in died} == {(7, 0.01)}


def test_a_process_that_ignores_sigterm_is_killed(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(api_parent, "END_SECONDS", 0.2)
    scripts = Scripts([IGNORES_TERM, READY_THEN_SLEEP])
    logs = supervised(scripts, lambda logs: bool(events(logs, "api_process_killed")), replace_when_ready=True)
    assert len(events(logs, "api_processes_replaced")) == 1


def test_a_failed_start_is_retried(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(api_parent, "PAUSE_SECONDS", 0.01)
    scripts = Scripts(chain([None, None], repeat(READY_THEN_SLEEP)))
    logs = supervised(scripts, lambda _: bool(scripts.living))
    assert [each["reason"] for each in events(logs, "api_process_not_started")] == ["no more processes"] * 2


@pytest.mark.parametrize("script", [DIES, None, "exec sleep 60"], ids=["dies", "can't be started", "hangs"])
def test_a_replacement_that_fails_leaves_the_old_process(
    monkeypatch: pytest.MonkeyPatch, script: str | None
) -> None:
    monkeypatch.setattr(api_parent, "READY_SECONDS", 1.0)
    scripts = Scripts(chain([READY_THEN_SLEEP], repeat(script)))

    def given_up(logs: list[Any]) -> bool:
        return bool(events(logs, "api_processes_not_replaced")) and scripts.living == {scripts.started[0]}

    supervised(scripts, given_up, replace_when_ready=True)
