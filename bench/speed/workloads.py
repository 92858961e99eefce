"""The workloads: which requests, of whom, about what; each as it is sent, so that the load is all in `wrk`."""

import itertools
import json
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field

import httpx

from speed.fill import SENDING, Registry
from speed.load import Request
from speed.template import NAMESERVERS, ZONE

BASE = "/api/v1"
PAGE = 100
MOST = 0
"""The number of the user with the most names."""


@dataclass(slots=True)
class Sender:
    """Makes requests over a registry, none of them twice where it changes something."""

    registry: Registry
    deep_cursor: str = ""
    last: str = ""
    """The name that was registered last."""
    _numbers: Iterator[int] = field(default_factory=itertools.count)

    def _users(self, count: int) -> Iterator[int]:
        """Give so many of the users that send requests, in turn."""
        return (1 + number % SENDING for number in range(count))

    def _names(self) -> list[tuple[int, str]]:
        held = self.registry.held
        return [(user, label) for user in range(1, SENDING + 1) for label in held.get(user, [])]

    def _get(self, user: int, path: str) -> Request:
        return Request("GET", BASE + path, self.registry.tokens[user])

    def _send(self, method: str, user: int, path: str, body: dict[str, object], key: str = "") -> Request:
        return Request(method, BASE + path, self.registry.tokens[user], json.dumps(body), key)

    def _new(self) -> str:
        number = next(self._numbers)
        # First what differs from one to the next, so that names come into all parts of an index.
        self.last = f"{number * 7919 % 456_976:05x}-{number}.{ZONE}"
        return self.last

    def one(self, _count: int) -> list[Request]:
        """GET one name of one's own."""
        return [self._get(user, f"/subdomains/{label}.{ZONE}") for user, label in self._names()]

    def me(self, _count: int) -> list[Request]:
        """GET /me."""
        return [self._get(user, "/me") for user in self._users(SENDING)]

    def page(self, _count: int) -> list[Request]:
        """GET the first hundred names of the user who has the most."""
        return [self._get(MOST, f"/subdomains?limit={PAGE}")] * 2

    def deep(self, _count: int) -> list[Request]:
        """GET the last hundred of them."""
        cursor = f"&cursor={self.deep_cursor}" if self.deep_cursor else ""
        return [self._get(MOST, f"/subdomains?limit={PAGE}{cursor}")] * 2

    def slow(self, _count: int) -> list[Request]:
        """GET what costs most: five hundred names, and a search that looks at all of a user's names."""
        return [self._get(MOST, path) for path in ("/subdomains?limit=500", "/subdomains?q=zzz&limit=500")]

    def register(self, count: int) -> list[Request]:
        """Register a free name with two nameservers."""
        return [self._register(user) for user in self._users(count)]

    def most(self, count: int) -> list[Request]:
        """Register a free name as the user who has the most."""
        return [self._register(MOST) for _ in range(count)]

    def empty(self, count: int) -> list[Request]:
        """Register a free name without nameservers: nothing of it has to be published."""
        return [self._send("POST", user, "/subdomains", {"fqdn": self._new()}) for user in self._users(count)]

    def _register(self, user: int) -> Request:
        return self._send("POST", user, "/subdomains", {"fqdn": self._new(), "nameservers": NAMESERVERS})

    def paid(self, count: int) -> list[Request]:
        """Register a name for credits: ask for the quote, then confirm it, both with an `Idempotency-Key`."""
        found = []
        for user in self._users(count // 2):
            body: dict[str, object] = {
                "fqdn": self._new(),
                "nameservers": NAMESERVERS,
                "registration_mode": "plus",
            }
            key = f"key-{self.last}"
            found.append(self._send("POST", user, "/subdomains", body, key))
            found.append(
                self._send("POST", user, "/subdomains", {**body, "confirm": True}, f"{key}-confirmed")
            )
        return found

    def update(self, count: int) -> list[Request]:
        """Give names other nameservers, each time others."""
        names = itertools.cycle(self._names())
        found = []
        for user, label in itertools.islice(names, count):
            hosts = [f"ns{host}.n{next(self._numbers)}.example" for host in (1, 2)]
            found.append(
                self._send("PUT", user, f"/subdomains/{label}.{ZONE}/nameservers", {"nameservers": hosts})
            )
        return found

    def renew(self, count: int) -> list[Request]:
        """Renew a name for credits; each can be renewed once, until `reopen` makes it as it was."""
        return [
            self._send("POST", user, f"/subdomains/{label}.{ZONE}/renew", {"confirm": True})
            for user, label in self.registry.renewable[:count]
        ]

    def reply(self, count: int) -> list[Request]:
        """Reply to a ticket of one's own."""
        tickets = itertools.islice(itertools.cycle(self.registry.tickets), count)
        return [
            self._send(
                "POST", user, f"/support/tickets/{ticket}/reply", {"message": "What is the state of it?"}
            )
            for user, ticket in tickets
        ]

    def mixed(self, count: int) -> list[Request]:
        """Nine reads of a name, then a registration."""
        reads = itertools.cycle(self.one(0))
        return [
            self._register(1 + place // 10 % SENDING) if place % 10 == 9 else next(reads)
            for place in range(count)
        ]

    def find_deep(self, origin: str) -> None:
        """Ask for the cursor of the last full page of the user who has the most names."""
        head = {"authorization": f"Bearer {self.registry.tokens[MOST]}"}
        cursor = ""
        with httpx.Client(base_url=origin, headers=head, timeout=30) as client:
            while True:
                query = f"?limit={PAGE}" + (f"&cursor={cursor}" if cursor else "")
                page = client.get(f"{BASE}/subdomains{query}").raise_for_status().json()["page"]
                if not page["has_more"]:
                    break
                self.deep_cursor, cursor = cursor, page["next_cursor"]


@dataclass(frozen=True, slots=True)
class Workload:
    """What is measured: how it is called, who makes its requests, and what it is compared with.

    `requests` go into one of what is counted; `refused` of them are answered with 402 or the like. `most_per_second` is
    more than any machine does of it. Where `seconds_max` is given it is measured for no longer.
    """

    name: str
    title: str
    make: Callable[[Sender, int], list[Request]]
    reference: str
    writes: bool = False
    requests: int = 1
    refused: int = 0
    most_per_second: int = 8000
    seconds_max: int = 60


HELLO, BARER, BARE = "hello", "hello_starlette", "bare"
WORKLOADS = (
    Workload("one", "GET one name", Sender.one, HELLO),
    Workload("me", "GET /me", Sender.me, HELLO),
    Workload("page", "GET a list of 100", Sender.page, HELLO),
    Workload("deep", "GET the last 100 of a long list", Sender.deep, HELLO),
    Workload("mixed", "9 reads, 1 registration", Sender.mixed, HELLO, writes=True),
    Workload("register", "register, free", Sender.register, BARE, writes=True),
    Workload("empty", "register, free, no nameservers", Sender.empty, BARE, writes=True),
    Workload("most", "register, user with the most names", Sender.most, BARE, writes=True),
    Workload("paid", "register, quote and confirm", Sender.paid, BARE, writes=True, requests=2, refused=1),
    Workload("update", "change nameservers", Sender.update, BARE, writes=True),
    Workload(
        "renew", "renew for credits", Sender.renew, BARE, writes=True, most_per_second=3000, seconds_max=1
    ),
    Workload("reply", "reply to a ticket", Sender.reply, BARE, writes=True),
)
BY_NAME = {each.name: each for each in WORKLOADS}
