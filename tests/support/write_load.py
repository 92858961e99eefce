"""A load of registrations, changes and deletions. It records acknowledged writes, to compare them with the registry at the end."""

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
    """Run a function in `count` threads, each with its number. At the end of the block set `stopped`, and wait for the threads."""
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
    """A load on the names of a registrant. Threads share no name, so the last acknowledged write is the expected state.

    `doubtful` are requests whose answer was lost. They may or may not have taken effect.
    """

    service: RunningService
    who: Registrant
    threads: int = 3
    pause_seconds: float = 0.02
    prefix: str = "n"
    """The beginning of the names. Each load in a zone needs a different prefix."""
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
        with http_clients.Client(timeout=60) as client:
            while not self._stopped.is_set() and not self.faults:
                fqdn = draws.choice(own) if own and draws.random() < 0.5 else None
                if fqdn is None:
                    with self._lock:
                        self._sent += 1
                        fqdn = f"{self.prefix}{self._sent}.{ZONE}"
                    body, records = draw_delegation(draws, fqdn)
                    done = self._send(client, fqdn, records, "POST", "", {"fqdn": fqdn, **body})
                    own += [fqdn] if done else []
                elif draws.random() < 0.7:
                    body, records = draw_delegation(draws, fqdn)
                    done = self._send(client, fqdn, records, "PUT", f"/{fqdn}/nameservers", body)
                    if not done:
                        own.remove(fqdn)
                else:
                    self._send(client, fqdn, NOTHING, "DELETE", f"/{fqdn}", None)
                    own.remove(fqdn)
                self._stopped.wait(self.pause_seconds)

    def _send(
        self, client: httpx.Client, fqdn: str, records: Records, method: str, path: str, body: Any
    ) -> bool:
        """Send a request. Return True if it was acknowledged. A name whose answer was lost isn't used again."""
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
        return {each["fqdn"]: Shown(each["status"], records_of(each)) for each in listed}

    def untouched_active(self) -> dict[str, tuple[int, Records]]:
        """Return the active names that no request is changing, with their numbers of requests and their records."""
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
        """Check that the registry has every acknowledged write, and nothing that wasn't requested. Return the names from the API."""
        shown = self.shown()
        for fqdn in {*self.acknowledged, *self.doubtful, *shown}:
            stored = shown[fqdn].records if fqdn in shown else NOTHING
            allowed = [self.acknowledged.get(fqdn, NOTHING)]
            allowed += [self.doubtful[fqdn]] if fqdn in self.doubtful else []
            assert stored in allowed, f"{fqdn}: {sorted(stored)} is stored, not {allowed}"
        return shown


def records_of(subdomain: dict[str, Any]) -> Records:
    """Return the records of a subdomain in an answer of the API. This code is independent of the registry's rules."""
    fqdn = subdomain["fqdn"]
    records = {(fqdn, "NS", f"{host}.") for host in subdomain["nameservers"]}
    for each in subdomain["glue"]:
        for kind, family in (("A", "ipv4"), ("AAAA", "ipv6")):
            records |= {(each["host"], kind, each[family])} if each.get(family) else set()
    for ds in subdomain["ds_records"]:
        rdata = f"{ds['key_tag']} {ds['algorithm']} {ds['digest_type']} {ds['digest'].lower()}"
        records.add((fqdn, "DS", rdata))
    return frozenset(records)


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
