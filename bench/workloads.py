"""The workloads: the requests of each, prepared before the load starts."""

import itertools
import json
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from typing import Any

from grown_registry import ZONE
from registries import NAMESERVERS, Registry, Sender
from servers import Service
from wrk import CLIENTS, Load, Request, run_load

BASE = "/api/v1"


@dataclass(slots=True)
class Requests:
    """The requests of a registry's users; each registration has a new name."""

    registry: Registry
    _numbers: Iterator[int] = field(default_factory=itertools.count)

    def _senders(self, count: int) -> Iterator[Sender]:
        return itertools.islice(itertools.cycle(self.registry.senders), count)

    def _owned(self) -> Iterator[tuple[Sender, str]]:
        """Yield each name with its sender, one of each sender in turn, without end."""
        columns = itertools.zip_longest(*(each.fqdns for each in self.registry.senders))
        pairs = [
            (sender, fqdn)
            for column in columns
            for sender, fqdn in zip(self.registry.senders, column, strict=True)
            if fqdn is not None
        ]
        return itertools.cycle(pairs)

    def _new_name(self) -> str:
        number = next(self._numbers)
        # Spread the first characters, so that new names go to all parts of an index.
        return f"{number * 7919 % 456_976:05x}-{number}.{ZONE}"

    def _register(self, sender: Sender, key: str = "", **members: Any) -> Request:
        body = json.dumps({"fqdn": self._new_name(), **members})
        return Request("POST", f"{BASE}/subdomains", sender.token, body, key)

    def get(self, count: int) -> list[Request]:
        """GET one name."""
        owned = itertools.islice(self._owned(), count)
        return [Request("GET", f"{BASE}/subdomains/{fqdn}", sender.token) for sender, fqdn in owned]

    def list_100(self, count: int) -> list[Request]:
        """GET a list of 100 names."""
        return [Request("GET", f"{BASE}/subdomains?limit=100", self.registry.reader.token)] * count

    def slow_lists(self) -> list[Request]:
        """GET 500 names, and a search through all names of a user."""
        paths = ("/subdomains?limit=500", "/subdomains?q=zzz&limit=500")
        return [Request("GET", BASE + path, self.registry.reader.token) for path in paths]

    def register(self, count: int) -> list[Request]:
        """Register a free name without nameservers."""
        return [self._register(sender) for sender in self._senders(count)]

    def register_delegated(self, count: int) -> list[Request]:
        """Register a free name with two nameservers."""
        return [self._register(sender, nameservers=NAMESERVERS) for sender in self._senders(count)]

    def register_paid(self, count: int) -> list[Request]:
        """Register a name for credits without nameservers: the quote, then its confirmation, each with an
        `Idempotency-Key`.
        """
        found = []
        for sender in self._senders(count // 2):
            fqdn = self._new_name()
            for confirm in (False, True):
                body = {"fqdn": fqdn, "registration_mode": "plus", "confirm": confirm}
                found.append(
                    Request("POST", f"{BASE}/subdomains", sender.token, json.dumps(body), f"{confirm}-{fqdn}")
                )
        return found

    def register_of_one(self, count: int) -> list[Request]:
        """Register free names of one user."""
        return [self._register(self.registry.senders[-1]) for _ in range(count)]

    def register_paid_of_one(self, count: int) -> list[Request]:
        """Register names of one user for credits, confirmed at once."""
        sender = self.registry.senders[-1]
        return [self._register(sender, registration_mode="plus", confirm=True) for _ in range(count)]

    def change_nameservers(self, count: int) -> list[Request]:
        """PUT other nameservers."""
        found = []
        for sender, fqdn in itertools.islice(self._owned(), count):
            number = next(self._numbers)
            body = json.dumps({"nameservers": [f"ns{host}.n{number}.example" for host in (1, 2)]})
            found.append(Request("PUT", f"{BASE}/subdomains/{fqdn}/nameservers", sender.token, body))
        return found

    def mixed(self, count: int) -> list[Request]:
        """Nine reads of one name, then a registration with nameservers."""
        reads, writes = iter(self.get(count)), iter(self.register_delegated(count // 10 + 1))
        return [next(writes if place % 10 == 9 else reads) for place in range(count)]


@dataclass(frozen=True, slots=True)
class Workload:
    """A workload: its name and title, its requests, and its reference.

    Of `requests` that count as one, `refused` are answered with 402. `most_per_second` is more than any
    machine does.
    """

    name: str
    title: str
    make: Callable[[Requests, int], list[Request]]
    reference: str
    requests: int = 1
    refused: int = 0
    most_per_second: int = 6000

    @property
    def writes(self) -> bool:
        """True if the requests change the registry."""
        return self.reference == "commits"

    def run(self, service: Service, requests: Requests, seconds: float) -> Load:
        """Send this workload for `seconds` and return the outcome; an unexpected refusal is an error."""
        count = int(seconds * self.most_per_second) if self.writes else 2000
        load = run_load(service.origin, self.make(requests, count), seconds, again=not self.writes)
        # At the end, each client may be in the middle of a pair.
        allowed = CLIENTS if self.refused else 0
        assert abs(load.refused - load.requests * self.refused / self.requests) <= allowed, (
            f"{self.name}: {load.refused} of {load.requests} requests were refused"
        )
        return load


WORKLOADS = (
    Workload("get", "GET a name", Requests.get, "hello"),
    Workload("list", "GET a list of 100", Requests.list_100, "hello"),
    Workload("register", "register, free", Requests.register, "commits"),
    Workload("paid", "register, paid: quote and confirm", Requests.register_paid, "commits", 2, 1),
    Workload("delegated", "register with nameservers", Requests.register_delegated, "commits"),
    Workload("one_free", "one user: register, free", Requests.register_of_one, "commits"),
    Workload("one_paid", "one user: register, paid, confirmed", Requests.register_paid_of_one, "commits"),
    Workload("nameservers", "change nameservers", Requests.change_nameservers, "commits"),
)
