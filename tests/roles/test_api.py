"""`sublet api`: its processes are restarted, replaced and ended without losing a request."""

import asyncio
import os
import signal
import socket
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path

import pytest

from sublet.config import Settings, SettingsError
from sublet.errors import Unavailable
from sublet.service.api_parent import run_api
from sublet.service.api_part import api_socket
from sublet.service.roles import run_dns, run_worker
from support import http_clients
from support.free_ports import free_address
from support.keepalive_clients import hammering
from support.processes import is_running
from support.repetitions import share
from support.role_processes import Apart, RoleProcess, apart
from support.waiting import wait_until

pytestmark = pytest.mark.slow

WORKERS = 2
ROLES = {
    "api": lambda settings, stop: run_api(settings, stop, 1, None),
    "worker": run_worker,
    "dns": run_dns,
}


@pytest.fixture(scope="module")
def roles(postgresql_server: str, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Apart]:
    with apart(postgresql_server, tmp_path_factory.mktemp("roles")) as opened:
        yield opened


@pytest.fixture
def api(roles: Apart) -> RoleProcess:
    """The running API. It is started again after a test that ended it."""
    if roles.started and roles.started[-1].process.poll() is None:
        return roles.started[-1]
    roles.service.client.close()
    roles.service.client = http_clients.Client()
    return roles.start("api", "--workers", str(WORKERS))


def metrics_of(roles: Apart, name: str) -> float:
    """Return the sum of a metric over all its labels."""
    return sum(value for key, value in roles.service.metrics().items() if key.partition("{")[0] == name)


def has_new_children(api: RoleProcess, old: set[int]) -> bool:
    """True if all old children have ended, and as many new ones run."""
    return len(api.children()) == WORKERS and old.isdisjoint(api.children())


def test_a_rolling_restart_under_load_fails_no_request(roles: Apart, api: RoleProcess) -> None:
    token = roles.service.add_user("rolling@example.org").token
    before = api.text.count("api_processes_replaced ")
    with hammering(f"{roles.service.base_url}/me", token) as hammer:
        hammer.wait_for_more(20)
        for _ in range(share(1, whole=3)):
            old = set(api.children())
            roles.pids |= old
            api.process.send_signal(signal.SIGHUP)
            wait_until(lambda of=old: has_new_children(api, of))  # type: ignore[misc]
            hammer.wait_for_more(20)
    assert hammer.failures == []
    assert hammer.closed > 0
    # The counts of ended processes are kept.
    assert metrics_of(roles, "sublet_http_requests_total") >= hammer.answers
    assert api.text.count("api_processes_replaced ") == before + share(1, whole=3)


def test_a_killed_process_is_restarted_and_its_counts_stay(roles: Apart, api: RoleProcess) -> None:
    ada = roles.service.add_user("killed@example.org")
    counted = metrics_of(roles, "sublet_http_requests_total")
    for _ in range(10):
        assert roles.service.call(ada, "GET", "/me").status_code == 200
    assert metrics_of(roles, "sublet_http_requests_total") == counted + 10
    before = set(api.children())
    assert len(before) == WORKERS
    for victim in before:
        os.kill(victim, signal.SIGKILL)
    roles.service.client.close()
    roles.service.client = http_clients.Client()
    wait_until(lambda: has_new_children(api, before))
    assert roles.service.call(ada, "GET", "/me").status_code == 200
    assert metrics_of(roles, "sublet_http_requests_total") == counted + 11
    assert api.text.count("api_process_died") == WORKERS


def test_an_address_in_use_is_reported(roles: Apart, api: RoleProcess) -> None:
    second = roles.start("api", said="")
    roles.started.insert(0, roles.started.pop())  # the last is the one that runs
    assert second.process.wait(60) == 3
    assert f"Can't listen on {roles.service.settings.http_listen} for HTTP" in second.text
    assert api.process.poll() is None


@pytest.mark.parametrize(
    "number",
    [signal.SIGTERM, pytest.param(signal.SIGINT, marks=pytest.mark.whole)],
    ids=lambda each: each.name,
)
def test_a_stopping_api_refuses_connections_and_loses_no_request(
    roles: Apart, api: RoleProcess, number: signal.Signals
) -> None:
    """Clients that connect while the processes drain are refused: a queue without a reader would let them
    wait in vain.
    """
    children = api.children()
    token = roles.service.add_user(f"{number.name}@example.org").token
    with hammering(f"{roles.service.base_url}/me", token) as hammer:
        hammer.wait_for_more(20)
        assert api.end(number) == 0
        wait_until(lambda: bool(hammer.failures))
    # A connection that waits in the listening socket's queue when that closes is reset; no process has read
    # its request.
    kinds = {each.partition("(")[0] for each in hammer.failures}
    assert kinds <= {"ConnectionRefusedError", "ConnectionResetError"}
    assert not any(is_running(pid) for pid in children)
    assert "stopped" in api.text


def test_children_end_when_their_parent_is_killed(roles: Apart, api: RoleProcess) -> None:
    children = api.children()
    assert len(children) == WORKERS
    api.end(signal.SIGKILL)
    wait_until(lambda: not any(is_running(pid) for pid in children))
    roles.start("api", "--workers", str(WORKERS))  # the address is free again


@pytest.mark.whole
def test_a_replacement_that_does_not_start_leaves_the_old_processes(
    postgresql_server: str, tmp_path: Path
) -> None:
    with apart(postgresql_server, tmp_path) as roles:
        file = tmp_path / "sublet.toml"
        file.write_text('log_level = "info"\n')
        api = roles.start("api", "--workers", str(WORKERS), "--config", str(file))
        ada, old = roles.service.add_user(), set(api.children())
        file.write_text('log_level = "loud"\n')
        api.process.send_signal(signal.SIGHUP)
        wait_until(lambda: api.has_said("api_processes_not_replaced"))
        wait_until(lambda: set(api.children()) == old)
        assert roles.service.call(ada, "GET", "/me").status_code == 200
        assert "log_level: 'loud'" in api.text
        file.write_text('log_level = "info"\n')
        api.process.send_signal(signal.SIGHUP)
        wait_until(lambda: has_new_children(api, old))


def test_unknown_addresses_of_the_built_in_name_servers_are_reported(roles: Apart) -> None:
    refused = roles.start("api", said="", dns_servers="", dns_listen="127.0.0.1:0")
    roles.started.insert(0, roles.started.pop())  # the last is the one that runs
    assert refused.process.wait(60) == 2
    assert "dns_servers" in refused.text


def refusal(role: str, kind: type[Exception], database_url: str) -> str:
    """Run a role in this process, which must refuse the database, and return the message."""
    settings = Settings(database_url=database_url, http_listen="{}:{}".format(*free_address()))
    with pytest.raises(kind) as caught:
        asyncio.run(asyncio.wait_for(ROLES[role](settings, asyncio.Event()), 60))
    return str(caught.value)


@pytest.mark.parametrize("role", ROLES)
def test_a_role_on_sqlite_is_refused(tmp_path: Path, role: str) -> None:
    message = refusal(role, SettingsError, f"sqlite:///{tmp_path}/registry.db")
    assert f"`sublet {role}`" in message
    assert "`sublet serve`" in message
    assert "postgresql://" in message


@pytest.mark.parametrize("role", ROLES)
def test_a_role_without_a_schema_is_refused(postgresql_server: str, role: str) -> None:
    assert "sublet init" in refusal(role, Unavailable, postgresql_server)


def test_connections_are_refused_before_a_process_is_ready() -> None:
    """The address is bound at once, but connections are refused until a process serves: clients then try
    another host.
    """
    settings = Settings(http_listen="127.0.0.1:0")
    with closing(api_socket(settings, listens=False)) as taken:
        with pytest.raises(ConnectionRefusedError):
            socket.create_connection(taken.getsockname(), 30)
        taken.listen()  # as the first process does that is ready
        socket.create_connection(taken.getsockname(), 30).close()
