"""Trials of an installation of many processes under a load that never stops.

At the end, everything that was acknowledged must be stored, once, and nothing else.
"""

import asyncio
import os
import random
import signal
import time
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from long.hosts.clients import GRANTED, Account, Client, HostsLoad, Traffic
from long.hosts.installation import Installation, Part, installation
from long.scenario import POSTGRESQL, SOAK, Outcome, Scenario, Trial
from sublet.primaries.store import count_waiting
from support import http_clients
from support.processes import children_of
from support.waiting import wait_until
from support.write_load import Records, records_of

SETTLED_SECONDS = 90.0
"""How long a trial waits until everything is published after the last start."""
TAKEOVER_SECONDS = 1.0
"""How long after the primary's end the operator promotes the standby."""
AWAY_SECONDS = 2.0
"""How long the standby or the name server is away."""
GIVEN_UP_SECONDS = 9.0
"""How long it is away for processes to give up waiting for it, and to say so."""
STEADY_ACKNOWLEDGEMENTS = 20
"""How many writes are acknowledged before and after each kill."""


@dataclass(frozen=True, slots=True)
class Survived:
    """The result of one kill: how long until the part was ready, until clients were answered, until a new
    name was published.
    """

    what: str
    back_seconds: float
    silence_seconds: float
    published_seconds: float
    met: Counter[str]

    def __str__(self) -> str:
        """Return it as a line of a report."""
        return (
            f"{self.what}: back after {self.back_seconds:.1f} s; longest time without an acknowledged write "
            f"{self.silence_seconds:.1f} s; a name registered at once was published after "
            f"{self.published_seconds:.1f} s; clients met {_told(self.met)}"
        )


@dataclass(slots=True)
class Loaded:
    """An installation under load."""

    running: Installation
    load: HostsLoad
    prober: Client
    draws: random.Random = field(default_factory=lambda: random.Random(1))  # noqa: S311 - which process, no secret

    @property
    def accounts(self) -> list[Account]:
        """All users."""
        return [*self.load.accounts, self.prober.account]

    @property
    def acknowledged(self) -> int:
        """How many writes were acknowledged by now."""
        return len(self.load.traffic.acknowledged)

    def wait_for_acknowledgements(self, count: int = STEADY_ACKNOWLEDGEMENTS) -> None:
        """Wait until `count` more writes were acknowledged."""
        wanted = self.acknowledged + count
        wait_until(lambda: self.acknowledged >= wanted or bool(self.load.traffic.faults), SETTLED_SECONDS)
        assert self.load.traffic.faults == [], self.load.traffic.faults[:5]

    def probe(self) -> None:
        """Register a name, and wait until it is published."""
        asyncio.run(self._probe())
        assert self.prober.traffic.faults == [], self.prober.traffic.faults

    async def _probe(self) -> None:
        async with http_clients.AsyncClient(timeout=30) as http:
            await self.prober.register(http, self.draws, "free")
            fqdn = list(self.prober.account.names)[-1]
            ends = time.monotonic() + SETTLED_SECONDS
            while await self.prober.status(http, fqdn) != "active":
                assert time.monotonic() < ends, f"{fqdn} was not published in {SETTLED_SECONDS:g} s"
                await asyncio.sleep(0.05)

    def kill(self, what: str) -> Survived:
        """Kill a part in the middle of the load, see to it that it comes back, and
        tell what that was like.
        """
        self.wait_for_acknowledgements()
        met = Counter(self.load.traffic.met)
        began = time.monotonic()
        KILLS[what](self)
        back = time.monotonic()
        self.probe()
        published = time.monotonic()
        self.wait_for_acknowledgements()
        silence = self.load.traffic.longest_silence(began, time.monotonic())
        return Survived(what, back - began, silence, published - began, self.load.traffic.met - met)

    def restart_all(self) -> Iterator[str]:
        """Restart all processes one by one, as for a new version: first by SIGHUP, then the whole process.

        Raises:
            AssertionError: an answer was lost, though clients follow `Retry-After` and use the other process
                if one refuses.
        """
        met, lost = Counter(self.load.traffic.met), len(self.load.traffic.lost)
        for api in self.running.apis:
            self.wait_for_acknowledgements()
            before = children_of(api.pid)
            os.kill(api.pid, signal.SIGHUP)
            wait_until(lambda of=api, old=before: _is_replaced(of, old), 90)  # type: ignore[misc]
            api.wait_until_ready()
            yield f"the processes of {api.name} replaced by SIGHUP"
        for part in (*self.running.workers, *self.running.apis):
            self.wait_for_acknowledgements()
            code = part.restart()
            assert code == 0, (part.name, code)
            yield f"{part.name} restarted"
        self.wait_for_acknowledgements()
        met = self.load.traffic.met - met
        assert not met["lost"], self.load.traffic.lost[lost:]
        yield f"all restarted, and no request failed; clients met {_told(met)}"


def _kill_part(part: Part) -> None:
    before = part.starts
    os.kill(part.pid, signal.SIGKILL)
    wait_until(lambda: part.starts > before)
    part.wait_until_ready()


def _kill_child(part: Part) -> None:
    """Kill a child of a process; its parent must start another."""
    before = children_of(part.pid)
    assert before, f"{part.name} has no children"
    os.kill(before[0], signal.SIGKILL)
    wait_until(lambda: len(set(children_of(part.pid)) - {before[0]}) >= len(before))
    part.wait_until_ready()


def _kill_knot(trial: Loaded) -> None:
    server = trial.running.on.primary
    server.kill()
    time.sleep(AWAY_SECONDS)
    server.start()


def _kill_database(trial: Loaded) -> None:
    """The primary dies and stays away: the standby takes over, and gets a standby of its own."""
    pair = trial.running.pair
    pair.primary.kill()
    time.sleep(TAKEOVER_SECONDS)
    pair.take_over()


def _restart_database(trial: Loaded) -> None:
    """The primary dies and starts again; the standby follows it."""
    pair = trial.running.pair
    pair.primary.kill()
    time.sleep(TAKEOVER_SECONDS)
    pair.primary.start()


def _kill_standby(trial: Loaded) -> None:
    """The standby dies, and nothing can be acknowledged until it is back."""
    pair = trial.running.pair
    pair.standby.kill()
    time.sleep(AWAY_SECONDS)
    pair.standby.start()
    pair.wait_for_standby()


def _kill_both(trial: Loaded) -> None:
    """The standby dies, then the primary; the standby is all that is left.

    Nothing may have been acknowledged without the standby.
    """
    pair = trial.running.pair
    pair.standby.kill()
    # Requests under way may just have been committed.
    before = trial.acknowledged + len(trial.load.clients)
    time.sleep(GIVEN_UP_SECONDS)
    assert trial.acknowledged <= before, "acknowledged without the standby"
    pair.primary.kill()
    pair.standby.start()
    pair.take_over()


KILLS: dict[str, Callable[[Loaded], None]] = {
    "API 1": lambda trial: _kill_part(trial.running.apis[0]),
    "API 2": lambda trial: _kill_part(trial.running.apis[1]),
    "child of API 1": lambda trial: _kill_child(trial.running.apis[0]),
    "child of API 2": lambda trial: _kill_child(trial.running.apis[1]),
    "worker 1": lambda trial: _kill_part(trial.running.workers[0]),
    "worker 2": lambda trial: _kill_part(trial.running.workers[1]),
    "Knot": _kill_knot,
    "primary database, the standby promoted": _kill_database,
    "primary database, started again": _restart_database,
    "standby database": _kill_standby,
    "standby database, then the primary, the standby promoted": _kill_both,
}
"""What can be killed; a kill returns when the part works again."""


def prepared(running: Installation, **options: Any) -> Loaded:
    """Add users with credits to an installation; return their load, which isn't running yet."""
    service = running.service
    accounts = [
        Account(service.add_user(f"user{number}@example.org", credit_count=GRANTED)) for number in range(4)
    ]
    load = HostsLoad(running.base_urls, accounts[1:], **options)
    return Loaded(running, load, Client(999, accounts[0], running.base_urls, Traffic()))


@contextmanager
def under_load(running: Installation, **options: Any) -> Iterator[Loaded]:
    """Send a load to an installation until the end of the block; then check everything.

    Raises:
        AssertionError: a request failed, an acknowledged write is missing or stored twice, an unacknowledged
            one is stored, an invariant is broken, the zone differs from the registry, or transactions
            deadlocked.
    """
    trial = prepared(running, **options)
    try:
        with trial.load.running():
            yield trial
        check(running, trial.accounts)
        assert running.database.deadlocks() == []
    except BaseException as error:
        error.add_note(running.logs())
        raise


def killed_in_turn(folder: Path, what: Sequence[str], *, restarts: int = 0, **options: Any) -> Iterator[str]:
    """Kill each part in turn under load, then restart everything `restarts` times; yield a line for each, and
    one for the end.
    """
    with installation(folder, **options) as running:
        with under_load(running) as trial:
            for each in what:
                yield str(trial.kill(each))
                if each.endswith("promoted"):
                    running.pair.build_standby()
            for _ in range(restarts):
                yield from trial.restart_all()
        yield summary(trial)


def _is_replaced(part: Part, before: Sequence[int]) -> bool:
    now = children_of(part.pid)
    return len(now) == len(before) and not set(now) & set(before)


def answers_lost_after_commit(folder: Path) -> None:
    """Kill the only API process while clients wait for answers of committed requests, because Knot hangs."""
    with (
        installation(
            folder, apis=1, children=1, workers=1, settings={"SUBLET_PUBLISH_WAIT_MS": "5000"}
        ) as running,
        under_load(running) as trial,
    ):
        trial.wait_for_acknowledgements()
        running.on.primary.freeze()
        before = trial.acknowledged
        wait_until(lambda: _waiting_names(running) >= len(trial.load.clients))
        assert trial.acknowledged >= before
        _kill_child(running.apis[0])  # killed alone, the parent would let requests finish
        assert trial.load.traffic.lost, "no answer was lost"
        running.on.primary.thaw()
        trial.wait_for_acknowledgements()


def _waiting_names(running: Installation) -> int:
    return sum(each.names for each in running.service.read(count_waiting).values())


def summary(trial: Loaded) -> str:
    """Return the line of a report that tells what a load came to."""
    accounts = trial.accounts
    names = [name for account in accounts for name in account.names.values()]
    tickets = [messages for account in accounts for messages in account.tickets.values()]
    return (
        f"{trial.acknowledged} writes acknowledged, each there once: {len(names)} names registered, "
        f"{sum(name.renewals for name in names)} renewed, {sum(name.is_deleted for name in names)} deleted, "
        f"{sum(len(account.charges) for account in accounts)} charges, {len(tickets)} tickets with "
        f"{sum(map(len, tickets))} messages; doctor clean, zone equal to the registry, no deadlock; "
        f"clients met {_told(trial.load.traffic.met)}"
    )


def _told(met: Counter[str]) -> str:
    return ", ".join(f"{count} {what}" for what, count in sorted(met.items()) if count) or "nothing"


def check(running: Installation, accounts: Sequence[Account]) -> None:
    """Check that exactly the acknowledged writes are in the registry, and without any help in the zone."""
    service = running.service
    with suppress(AssertionError):  # the difference in the registry tells more
        wait_until(lambda: service.read(count_waiting) == {}, SETTLED_SECONDS)
    wanted: set[tuple[str, str, str]] = set()
    for account in accounts:
        wanted |= _check_names(running, account)
        _check_money(running, account)
        _check_tickets(running, account)
    assert service.read(count_waiting) == {}
    found = running.on.records()
    assert found == wanted, sorted(found ^ wanted)[:20]
    with suppress(AssertionError):  # the violations tell more
        wait_until(lambda: service.doctor() == [], SETTLED_SECONDS)
    service.operator("doctor")


def _check_names(running: Installation, account: Account) -> Records:
    """Check an account's names, and return the records that the zone must have for them."""
    live = {each["fqdn"]: each for each in running.service.list_all(account.who, "/subdomains", "subdomains")}
    trashed = {
        each["fqdn"]
        for each in running.service.list_all(account.who, "/subdomains?status=trashed", "subdomains")
    }
    wanted = {fqdn: name for fqdn, name in account.names.items() if not name.is_deleted}
    assert live.keys() == wanted.keys(), ("names", sorted(live.keys() ^ wanted.keys()))
    gone = account.names.keys() - wanted.keys()
    assert trashed == gone, ("names in the trash", sorted(trashed ^ gone))
    for fqdn, name in wanted.items():
        shown = live[fqdn]
        assert records_of(shown) == name.records, (shown, name)
        assert (shown["expires_at"], shown["registration_type"]) == (name.expires_at, name.mode), (
            shown,
            name,
        )
        assert shown["status"] == "active", shown
    return frozenset(record for name in wanted.values() for record in name.records)


def _check_money(running: Installation, account: Account) -> None:
    payments = running.service.list_all(account.who, "/payments", "payments")
    charges = [-each["credits"] for each in payments if each["credits"] < 0]
    assert sorted(charges) == sorted(account.charges), (len(charges), len(account.charges))
    balance = running.service.call(account.who, "GET", "/credits").json()["credit_balance"]
    assert balance == GRANTED - sum(account.charges)


def _check_tickets(running: Installation, account: Account) -> None:
    shown = running.service.list_all(account.who, "/support/tickets", "tickets")
    assert Counter(each["subject"] for each in shown) == Counter(account.tickets.keys())
    for each in shown:
        ticket = running.service.call(account.who, "GET", f"/support/tickets/{each['id']}").json()["ticket"]
        messages = [message["message"] for message in ticket["messages"]]
        assert messages == account.tickets[each["subject"]], (messages, account.tickets[each["subject"]])


def run(trial: Trial) -> Outcome:
    """Kill each part in turn, restart everything in turn, and lose answers after their commit."""
    folders = [trial.folder / str(number) for number in range(3)]
    for folder in folders:
        folder.mkdir()
    lines = [f"{trial.count} rounds of kills, {trial.count} rounds of restarts"]
    # Each kill is reported once, from the last round.
    lines += {
        line.partition(": ")[0]: line for line in killed_in_turn(folders[0], [*KILLS] * trial.count)
    }.values()
    lines.append(list(killed_in_turn(folders[1], [], restarts=trial.count))[-2])
    answers_lost_after_commit(folders[2])
    lines.append(
        "the only API process was killed while clients waited for answers of committed requests: nothing "
        "was done twice"
    )
    return Outcome("\n".join(lines))


HOSTS = Scenario(
    "hosts",
    "Two API processes of two workers each, two worker processes, PostgreSQL with `fsync` and a "
    "synchronous standby, and Knot. Clients repeat each request under its `Idempotency-Key` until it is "
    "answered, while each part is killed in turn. At the end, exactly the acknowledged writes must be "
    "there, once, in the registry and in the zone. Counted are rounds.",
    run,
    {SOAK: {POSTGRESQL: 3}},
    ("knot",),
)
