"""Helpers of tests of faulty primaries: names whose publication must fail, then succeed, and changed
configurations of servers.
"""

import itertools
import socket
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from sublet.primaries.primary import SENTENCES
from support.name_servers import NameServerProcess
from support.running_service import Registrant
from support.service_on_primary import ZONE, ServiceOn
from support.waiting import wait_until

PROVIDER = "ns.provider.example"
_NUMBERS = itertools.count(1)


def register(on: ServiceOn, who: Registrant, name: str = "", *, nameservers: int = 1) -> str:
    """Register a name, by default a new one."""
    fqdn = f"{name or f'name{next(_NUMBERS)}'}.{ZONE}"
    hosts = [PROVIDER, *(f"ns{number}.provider.example" for number in range(1, nameservers))]
    on.service.register(who, fqdn, nameservers=hosts)
    return fqdn


def fails_for(on: ServiceOn, who: Registrant, cause: str) -> str:
    """Register a name whose publication must fail for this cause, and return the name."""
    fqdn = register(on, who)
    # A BIND that has just started may answer SERVFAIL to the first update, which is retried.
    wait_until(lambda: on.state().problem == cause)
    wait_until(lambda: on.shown(who, fqdn)["provision_error"] == SENTENCES[cause])
    problem = on.state()
    assert problem.problem_detail
    assert problem.problem_at is not None
    assert on.shown(who, fqdn)["status"] == "failed"
    return fqdn


def healed(on: ServiceOn, who: Registrant, *fqdns: str) -> None:
    for fqdn in fqdns:
        on.wait_until_active(who, fqdn)
        assert on.shown(who, fqdn)["provision_error"] is None
        assert (fqdn, "NS", f"{PROVIDER}.") in on.records()
    wait_until(lambda: on.state().problem is None)
    state = on.state()
    assert (state.problem_detail, state.problem_at, state.attempts) == (None, None, 0)


def no_rights(server: NameServerProcess) -> tuple[str, str]:
    """Return the change of the server's configuration that takes the right to update
    from the service's key.
    """
    name = server.key.name
    return {
        "knot": ("action: [update, transfer]", "action: [transfer]"),
        "bind": (f"grant {name} ", f"deny {name} "),
        "powerdns": ("dnsupdate=yes", "dnsupdate=no"),
    }[server.kind]


@contextmanager
def changed(server: NameServerProcess, *changes: tuple[str, str], all_files: bool = False) -> Iterator[None]:
    """Restart the server with a changed configuration, and restore the configuration at the end."""
    files = [Path(each.path) for each in server.config.files if "/c/" in each.path]
    good = {path: path.read_text(encoding="utf-8") for path in (files if all_files else files[:1])}
    assert all(any(old in text for text in good.values()) for old, _ in changes), (changes, good)
    server.kill()
    for path, text in good.items():
        for old, new in changes:
            text = text.replace(old, new)  # noqa: PLW2901 - one change after the other
        path.write_text(text, encoding="utf-8")
    start(server)
    try:
        yield
    finally:
        server.kill()
        for path, text in good.items():
            path.write_text(text, encoding="utf-8")
        server.start()


@contextmanager
def in_database(server: NameServerProcess, there: str, back: str) -> Iterator[None]:
    """Change PowerDNS's database, and restore it at the end."""
    for statement in (there, back):
        server.kill()
        server.run(["sqlite3", str(server.folder / "s" / "pdns.sqlite3"), statement])
        start(server)
        if statement == there:
            yield
    wait_until(server.is_ready)


def start(server: NameServerProcess) -> None:
    """Start the server, and wait until it listens."""
    server.start(wait=False)
    wait_until(lambda: listens(server))


def listens(server: NameServerProcess) -> bool:
    try:
        socket.create_connection((server.address, server.port), 1).close()
    except OSError:
        return False
    return True
