"""Clients that follow docs/api.md: each request has an `Idempotency-Key` and is repeated until it is
answered.

They remember the names, terms, credits and tickets that were acknowledged. At the end the registry must hold
exactly those.
"""

import asyncio
import itertools
import random
import threading
import time
import uuid
from collections import Counter
from collections.abc import Callable, Coroutine, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from datetime import datetime, timedelta
from typing import Any

import httpx

from support import http_clients
from support.running_service import Registrant
from support.service_on_primary import ZONE
from support.write_load import Records, draw_delegation, records_of

PERIOD = timedelta(days=365)
PRICES = {"free": 0, "plus": 10}
GRANTED = 1_000_000
ANSWER_SECONDS = 90.0
"""How long a client asks before it says that it was not answered: far longer than any outage of a trial."""
REFUSED_PAUSE_SECONDS = 0.1


class NotAnsweredError(Exception):
    """A client has given up a request whose result is unknown."""


@dataclass(slots=True)
class Name:
    """A name as acknowledged."""

    fqdn: str
    mode: str
    records: Records
    expires_at: str
    renewals: int = 0
    is_deleted: bool = False


@dataclass(slots=True)
class Account:
    """A user, and what was acknowledged to its clients."""

    who: Registrant
    names: dict[str, Name] = field(default_factory=dict)
    tickets: dict[str, list[str]] = field(default_factory=dict)
    """The messages of each ticket, by its subject."""
    charges: list[int] = field(default_factory=list)


@dataclass(slots=True)
class Traffic:
    """What clients met."""

    acknowledged: list[float] = field(default_factory=list)
    """When each write was acknowledged, by the monotonic clock."""
    met: Counter[str] = field(default_factory=Counter)
    """Counts `refused` (connections), `lost` (no answer after a request), `503`, `429`, `in_progress`,
    `replayed`.
    """
    lost: list[str] = field(default_factory=list)
    """Each lost answer: the request, the process, how long after it was sent, and the error."""
    faults: list[str] = field(default_factory=list)

    def longest_silence(self, since: float, until: float) -> float:
        """Return the longest time between two acknowledgements, or of none at the ends, within a span."""
        moments = [since, *(each for each in tuple(self.acknowledged) if since <= each <= until), until]
        return max(later - earlier for earlier, later in itertools.pairwise(moments))


@dataclass(slots=True)
class Client:
    """A client with a connection to every API process, which it uses in turn; the next one if one fails."""

    number: int
    account: Account
    base_urls: Sequence[str]
    traffic: Traffic
    modes: Sequence[str] = ("free", "free", "plus")
    """The modes of registration; each is as frequent as it is listed."""
    looks: bool = True
    """Whether it reads what it wrote, from any process."""
    _turn: int = 0
    _made: int = 0
    _own: list[Name] = field(default_factory=list)
    _tickets: list[tuple[str, str]] = field(default_factory=list)

    async def act(self, http: httpx.AsyncClient, draws: random.Random) -> None:
        """Do one thing, and wait for its answer."""
        live = [each for each in self._own if not each.is_deleted]
        renewable = [each for each in live if not each.renewals]
        actions: list[tuple[float, Callable[[], Coroutine[Any, Any, None]]]] = [
            (4, lambda: self.register(http, draws, draws.choice(self.modes))),
            (1, lambda: self._open_ticket(http)),
        ]
        if live:
            actions.append((3, lambda: self._change(http, draws, draws.choice(live))))
            actions.append((0.5, lambda: self._delete(http, draws.choice(live))))
            if self.looks:
                actions.append((1, lambda: self._look(http, draws.choice(live))))
        if renewable:
            actions.append((3, lambda: self._renew(http, draws.choice(renewable))))
        if self._tickets:
            actions.append((1, lambda: self._reply(http, *draws.choice(self._tickets))))
        chosen = draws.choices([each for _, each in actions], [weight for weight, _ in actions])[0]
        await chosen()

    async def register(self, http: httpx.AsyncClient, draws: random.Random, mode: str) -> None:
        """Register a new name; a paid one by a quote and its confirmation."""
        fqdn = f"c{self.number}-{self._next()}.{ZONE}"
        delegation, records = draw_delegation(draws, fqdn)
        body = {"fqdn": fqdn, "registration_mode": mode, **delegation}
        answer = await self._pay(http, "/subdomains", body, PRICES[mode], 201)
        name = Name(fqdn, mode, records, answer["subdomain"]["expires_at"])
        self.account.names[fqdn] = name
        self._own.append(name)
        self._agree(answer["subdomain"], name)

    async def _renew(self, http: httpx.AsyncClient, name: Name) -> None:
        answer = await self._pay(http, f"/subdomains/{name.fqdn}/renew", {}, PRICES[name.mode], 200)
        name.renewals += 1
        expires_at = datetime.fromisoformat(name.expires_at) + PERIOD
        name.expires_at = answer["renewal"]["expires_at"]
        if datetime.fromisoformat(name.expires_at) != expires_at:
            self.traffic.faults.append(f"{name.fqdn} expires at {name.expires_at}, not {expires_at}")

    async def _pay(
        self, http: httpx.AsyncClient, path: str, body: dict[str, Any], price: int, status: int
    ) -> dict[str, Any]:
        """Send a request that may cost: the quote first, if there is one."""
        if price:
            quoted = await self._send(http, "POST", path, body, 402)
            if quoted["error"] != "payment_confirmation_required" or quoted["quote"]["price"] != price:
                self.traffic.faults.append(f"{path}: {quoted}")
        answer = await self._send(
            http, "POST", path, {**body, **({"confirm": True} if price else {})}, status
        )
        charged = answer.get("charged_credits", answer.get("renewal", {}).get("charged_credits"))
        if charged != price:
            self.traffic.faults.append(f"{path}: charged {charged}, not {price}")
        self.account.charges += [price] if price else []
        return answer

    async def _change(self, http: httpx.AsyncClient, draws: random.Random, name: Name) -> None:
        body, records = draw_delegation(draws, name.fqdn)
        answer = await self._send(http, "PUT", f"/subdomains/{name.fqdn}/nameservers", body, 200)
        name.records = records
        self._agree(answer["subdomain"], name)

    async def _delete(self, http: httpx.AsyncClient, name: Name) -> None:
        await self._send(http, "DELETE", f"/subdomains/{name.fqdn}", None, 200)
        name.is_deleted = True

    async def _look(self, http: httpx.AsyncClient, name: Name) -> None:
        """Check that any process shows the acknowledged state at once."""
        answer = await self._send(http, "GET", f"/subdomains/{name.fqdn}", None, 200)
        self._agree(answer["subdomain"], name)

    async def status(self, http: httpx.AsyncClient, fqdn: str) -> str:
        """Return a name's current status."""
        answer = await self._send(http, "GET", f"/subdomains/{fqdn}", None, 200)
        return str(answer["subdomain"]["status"])

    async def _open_ticket(self, http: httpx.AsyncClient) -> None:
        subject = f"c{self.number}: {self._next()}"
        body = {"subject": subject, "message": f"first of {subject}"}
        answer = await self._send(http, "POST", "/support/tickets", body, 201)
        self.account.tickets[subject] = [body["message"]]
        self._tickets.append((subject, answer["ticket"]["ticket_number"]))

    async def _reply(self, http: httpx.AsyncClient, subject: str, number: str) -> None:
        message = f"c{self.number}: {self._next()}"
        await self._send(http, "POST", f"/support/tickets/{number}/reply", {"message": message}, 200)
        self.account.tickets[subject].append(message)

    def _next(self) -> int:
        self._made += 1
        return self._made

    def _agree(self, shown: dict[str, Any], name: Name) -> None:
        if records_of(shown) != name.records or shown["expires_at"] != name.expires_at:
            self.traffic.faults.append(f"{name.fqdn} is shown as {shown}, not {name}")

    async def _send(
        self, http: httpx.AsyncClient, method: str, path: str, body: Any, expected: int
    ) -> dict[str, Any]:
        """Send a request until it has the expected answer; wait for `Retry-After`."""
        key = uuid.uuid4().hex
        ends = time.monotonic() + ANSWER_SECONDS
        met = self.traffic.met
        tries: list[str] = []
        while time.monotonic() < ends:
            headers = {"authorization": f"Bearer {self.account.who.token}"}
            if method != "GET":
                headers["idempotency-key"] = key
            url, sent = self._next_url() + path, time.monotonic()
            try:
                answer = await http.request(
                    method, url, headers=headers, **({} if body is None else {"json": body})
                )
            except httpx.ConnectError:  # nothing was sent
                met["refused"] += 1
                tries.append("refused")
                await asyncio.sleep(REFUSED_PAUSE_SECONDS)
                continue
            except httpx.TransportError as error:
                met["lost"] += 1
                self.traffic.lost.append(f"{method} {url} after {time.monotonic() - sent:.1f} s: {error!r}")
                tries.append(type(error).__name__)
                continue
            if answer.status_code == expected:
                if answer.is_success and method != "GET":
                    self.traffic.acknowledged.append(time.monotonic())
                met["replayed"] += "idempotent-replayed" in answer.headers
                return dict(answer.json())
            if answer.status_code in (429, 503) and "retry-after" in answer.headers:
                tries.append(str(answer.status_code))
                met[str(answer.status_code)] += 1
                await asyncio.sleep(float(answer.headers["retry-after"]))
            elif answer.json().get("error") == "idempotency_in_progress":
                tries.append("in_progress")
                met["in_progress"] += 1
                await asyncio.sleep(0.2)
            else:
                self.traffic.faults.append(
                    f"{method} {path} after {tries}: {answer.status_code} {answer.text[:500]}"
                )
                raise NotAnsweredError(f"{method} {path}")
        self.traffic.faults.append(f"{method} {path} was not answered in {ANSWER_SECONDS:g} s: {tries[-20:]}")
        raise NotAnsweredError(f"{method} {path}")

    def _next_url(self) -> str:
        self._turn += 1
        return self.base_urls[self._turn % len(self.base_urls)]


@dataclass(slots=True)
class HostsLoad:
    """Several users with several clients each, in a thread of their own."""

    base_urls: Sequence[str]
    accounts: Sequence[Account]
    clients_each: int = 2
    pause_seconds: float = 0.03
    modes: Sequence[str] = ("free", "free", "plus")
    looks: bool = True
    seed: int = 1
    traffic: Traffic = field(default_factory=Traffic)
    clients: list[Client] = field(default_factory=list)
    _stopped: threading.Event = field(default_factory=threading.Event)

    @contextmanager
    def running(self) -> Iterator[None]:
        """Send requests until the end of the block; then each client waits for the answer of its last one."""
        self._stopped.clear()
        thread = threading.Thread(target=lambda: asyncio.run(self._run()), name="clients")
        thread.start()
        try:
            yield
        finally:
            self._stopped.set()
            thread.join(ANSWER_SECONDS + 60)
        assert not thread.is_alive()
        assert self.traffic.faults == [], self.traffic.faults[:5]

    async def _run(self) -> None:
        for number in range(len(self.clients), len(self.accounts) * self.clients_each):
            account = self.accounts[number % len(self.accounts)]
            self.clients.append(
                Client(
                    number,
                    account,
                    self.base_urls,
                    self.traffic,
                    modes=self.modes,
                    looks=self.looks,
                    _turn=number,
                )
            )
        await asyncio.gather(*(self._act(each) for each in self.clients))

    async def _act(self, client: Client) -> None:
        draws = random.Random(self.seed * 1000 + client.number)  # noqa: S311 - which request comes next, no secret
        async with http_clients.AsyncClient(timeout=30) as http:
            while not self._stopped.is_set() and not self.traffic.faults:
                try:
                    await client.act(http, draws)
                except NotAnsweredError:
                    continue
                except Exception as error:  # noqa: BLE001 - told by `running`
                    self.traffic.faults.append(f"{type(error).__name__}: {error}")
                    return
                await asyncio.sleep(self.pause_seconds)
