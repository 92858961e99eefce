"""A load of registrations, changes and deletions.

It records acknowledged writes, to compare them with the registry at the end.
"""

import random
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import Any

import httpx

from support import http_clients
from support.running_service import DS, Registrant, RunningService
from support.service_on_primary import ZONE

Triple = tuple[str, str, str]
"""A record: owner, type, rdata."""
Records = frozenset[Triple]
NOTHING: Records = frozenset()


@contextmanager
def in_threads(run: Callable[[int], None], count: int, stopped: threading.Event) -> Iterator[None]:
    """Run a function in `count` threads, each with its number.

    At the end of the block set `stopped`, and wait for the threads.
    """
    threads = [threading.Thread(target=run, args=(number,)) for number in range(count)]
    for thread in threads:
        thread.start()
    try:
        yield
    finally:
        stopped.set()
        for thread in threads:
            thread.join(60)
    assert not any(thread.is_alive() for thread in threads)


@dataclass(frozen=True, slots=True)
class Shown:
    """A name in the API: its status, and the records of its delegation."""

    status: str
    records: Records


@dataclass(slots=True)
class Load:
    """A load on the names of a registrant.

    Threads share no name, so the last acknowledged write is the expected state.

    `doubtful` are requests whose answer was lost. They may or may not have taken effect.
    """

    service: RunningService
    who: Registrant
    threads: int = 3
    pause_seconds: float = 0.02
    prefix: str = "n"
    """The beginning of the names. Each load in a zone needs a different prefix."""
    with_records: bool = False
    """True if some of the names get records instead of nameservers."""
    acknowledged: dict[str, Records] = field(default_factory=dict)
    doubtful: dict[str, Records] = field(default_factory=dict)
    requests: int = 0
    """The number of acknowledged requests."""
    touched: dict[str, int] = field(default_factory=dict)
    """The number of requests that were sent about a name."""
    faults: list[str] = field(default_factory=list)
    _own: dict[int, list[str]] = field(default_factory=dict)
    _sent: int = 0
    _stopped: threading.Event = field(default_factory=threading.Event)
    _lock: threading.Lock = field(default_factory=threading.Lock)

    @contextmanager
    def running(self) -> Iterator[None]:
        """Send requests until the end of the block, and wait for all answers."""
        self._stopped.clear()
        with in_threads(self._run, self.threads, self._stopped):
            yield
        assert self.faults == []

    def _run(self, number: int) -> None:
        draws = random.Random(time.monotonic_ns())  # noqa: S311 - chooses the next request, not a secret
        own = self._own.setdefault(number, [])
        with http_clients.Client() as client:
            while not self._stopped.is_set() and not self.faults:
                fqdn = draws.choice(own) if own and draws.random() < 0.5 else None
                if fqdn is None:
                    with self._lock:
                        self._sent += 1
                        fqdn = f"{self.prefix}{self._sent}.{ZONE}"
                    _, body, records = self._draw(draws, fqdn)
                    done = self._send(client, fqdn, records, "POST", "", {"fqdn": fqdn, **body})
                    own += [fqdn] if done else []
                elif draws.random() < 0.7:
                    what, body, records = self._draw(draws, fqdn)
                    done = self._send(client, fqdn, records, "PUT", f"/{fqdn}/{what}", body)
                    if not done:
                        own.remove(fqdn)
                else:
                    self._send(client, fqdn, NOTHING, "DELETE", f"/{fqdn}", None)
                    own.remove(fqdn)
                self._stopped.wait(self.pause_seconds)

    def _has_records(self, fqdn: str) -> bool:
        """True for every third name, if the load has names with records."""
        number = fqdn.removeprefix(self.prefix).partition(".")[0]
        return self.with_records and number.isdigit() and int(number) % 3 == 0

    def _draw(self, draws: random.Random, fqdn: str) -> tuple[str, dict[str, Any], Records]:
        """Return the last part of a path, the body of a request, and the records that it asks for."""
        if self._has_records(fqdn):
            return "records", *draw_records(draws, fqdn)
        return "nameservers", *draw_delegation(draws, fqdn)

    def _send(
        self, client: httpx.Client, fqdn: str, records: Records, method: str, path: str, body: Any
    ) -> bool:
        """Send a request.

        Return True if it was acknowledged. A name whose answer was lost isn't used again.
        """
        with self._lock:
            self.touched[fqdn] = self.touched.get(fqdn, 0) + 1
            self.doubtful[fqdn] = records
        try:
            answer = client.request(
                method,
                f"{self.service.base_url}/subdomains{path}",
                headers={"authorization": f"Bearer {self.who.token}"},
                **({} if body is None else {"json": body}),
            )
        except httpx.ConnectError:  # nothing was sent
            with self._lock:
                del self.doubtful[fqdn]
            self._stopped.wait(0.1)
            return False
        except httpx.TransportError:
            self._stopped.wait(0.1)
            return False
        with self._lock:
            if not answer.is_success:
                self.faults.append(f"{method} {fqdn}: {answer.status_code} {answer.text}")
                return False
            del self.doubtful[fqdn]
            self.acknowledged[fqdn] = records
            self.requests += 1
        return True

    def shown(self) -> dict[str, Shown]:
        """Return all live names of the registrant from the API."""
        listed = self.service.list_all(self.who, "/subdomains", "subdomains")
        return {each["fqdn"]: Shown(each["status"], self._records_of(each)) for each in listed}

    def _records_of(self, subdomain: dict[str, Any]) -> Records:
        fqdn = subdomain["fqdn"]
        if not self._has_records(fqdn):
            return records_of(subdomain)
        sets = self.service.call(self.who, "GET", f"/subdomains/{fqdn}/records").json().get("records", [])
        return frozenset(
            (_owner(fqdn, each["name"]), each["type"], value) for each in sets for value in each["values"]
        )

    def untouched_active(self) -> dict[str, tuple[int, Records]]:
        """Return the active names that no request is changing, with their numbers of requests and their
        records.
        """
        with self._lock:
            before = {
                fqdn: times for fqdn, times in self.touched.items() if fqdn not in self.doubtful
            }  # no request about the name is running
        shown = self.shown()
        with self._lock:
            return {
                fqdn: (before[fqdn], each.records)
                for fqdn, each in shown.items()
                if each.status == "active" and before.get(fqdn) == self.touched[fqdn]
            }

    def check_stored(self) -> dict[str, Shown]:
        """Check that the registry has every acknowledged write, and nothing that wasn't requested.

        Return the names from the API.
        """
        shown = self.shown()
        for fqdn in {*self.acknowledged, *self.doubtful, *shown}:
            stored = shown[fqdn].records if fqdn in shown else NOTHING
            allowed = [self.acknowledged.get(fqdn, NOTHING)]
            allowed += [self.doubtful[fqdn]] if fqdn in self.doubtful else []
            assert stored in allowed, f"{fqdn}: {sorted(stored)} is stored, not {allowed}"
        return shown


def records_of(subdomain: dict[str, Any]) -> Records:
    """Return the records of a subdomain in an answer of the API.

    This code is independent of the registry's rules.
    """
    fqdn = subdomain["fqdn"]
    records = {(fqdn, "NS", f"{host}.") for host in subdomain["nameservers"]}
    for each in subdomain["glue"]:
        for kind, family in (("A", "ipv4"), ("AAAA", "ipv6")):
            records |= {(each["host"], kind, each[family])} if each.get(family) else set()
    for ds in subdomain["ds_records"]:
        rdata = f"{ds['key_tag']} {ds['algorithm']} {ds['digest_type']} {ds['digest'].lower()}"
        records.add((fqdn, "DS", rdata))
    return frozenset(records)


def _owner(fqdn: str, name: str) -> str:
    return fqdn if name == "@" else f"{name}.{fqdn}"


def draw_records(draws: random.Random, fqdn: str) -> tuple[dict[str, Any], Records]:
    """Draw the records of a name, and return their request and the records."""
    choices: dict[tuple[str, str], str] = {
        ("@", "A"): f"9.9.9.{draws.randrange(1, 255)}",
        ("@", "TXT"): f'"v{draws.randrange(1000)}"',
        ("www", "CNAME"): f"site{draws.randrange(3)}.provider.example.",
        ("*", "MX"): f"{draws.randrange(100)} mail.provider.example.",
        ("_acme-challenge", "TXT"): f'"token{draws.randrange(1000)}"',
    }
    drawn = draws.sample(sorted(choices), draws.randrange(1, len(choices)))
    sets = [{"name": name, "type": kind, "values": [choices[name, kind]]} for name, kind in drawn]
    return {"records": sets}, frozenset(
        (_owner(fqdn, name), kind, choices[name, kind]) for name, kind in drawn
    )


def draw_delegation(draws: random.Random, fqdn: str) -> tuple[dict[str, Any], Records]:
    """Draw a delegation, and return its request and its records."""
    hosts = [f"ns{draws.randrange(1000)}.provider.example" for _ in range(2)]
    records = {(fqdn, "NS", f"{host}.") for host in hosts}
    body: dict[str, Any] = {"nameservers": sorted(set(hosts)), "glue": [], "ds_records": []}
    if draws.random() < 0.5:
        inside, address = f"ns{draws.randrange(3)}.{fqdn}", f"9.9.9.{draws.randrange(1, 255)}"
        body["nameservers"].append(inside)
        body["glue"].append({"host": inside, "ipv4": address})
        records |= {(fqdn, "NS", f"{inside}."), (inside, "A", address)}
    if draws.random() < 0.3:
        body["ds_records"].append(DS)
        records.add((fqdn, "DS", DS))
    return body, frozenset(records)
