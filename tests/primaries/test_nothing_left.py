"""After any changes of a delegation, no old record is left at or below its name: a random walk on every name
server.
"""

import random
from collections.abc import Iterator
from dataclasses import dataclass, field

import pytest

from sublet.primaries import store as publish_store
from support.name_servers import KINDS
from support.repetitions import share
from support.running_service import DS, Registrant
from support.service_on_primary import BUILT_IN, ZONE, ServiceOn, service_on
from support.waiting import wait_until

pytestmark = pytest.mark.slow
SEED = 20261121
STEPS = 30
NAMES = (f"walk.{ZONE}", f"walk-2.{ZONE}")
LABELS = ("ns1", "ns2", "deep.below.ns", "ns1.ns1")
IPV4 = ("9.9.9.9", "8.8.8.8", "1.1.1.1")
IPV6 = ("2620:fe::9", "2001:4860:4860::8888", "2606:4700:4700::1111")
DS_TEXTS = (DS.lower(), f"4711 8 2 {'ab' * 32}", f"815 15 4 {'cd' * 48}")
Triple = tuple[str, str, str]


@dataclass(slots=True)
class Walker:
    """A name, its desired delegation, and whether the zone should have it now."""

    name: str
    neighbour: str
    wanted: set[Triple] = field(default_factory=set)
    state: str = "free"

    def standing(self) -> set[Triple]:
        """Return the records that the zone must have at and below the name."""
        return self.wanted if self.state == "held" else set()

    def draw(self, luck: random.Random, *, beside_neighbour: bool) -> dict[str, object]:
        """Draw a delegation for a request, and store its expected records; a nameserver needs a registered
        name above it.
        """
        own = luck.sample([f"{label}.{self.name}" for label in LABELS], luck.randint(0, 3))
        below = [f"ns1.{self.neighbour}"] if beside_neighbour else []
        others = luck.sample(["ns.provider.example", *below, "ns2.provider.example"], 2)
        hosts = [*own, *others[: luck.randint(0 if own else 1, 2)]]
        glue, records = [], {(self.name, "NS", f"{host}.") for host in hosts}
        for host in own:
            families = luck.choice(({"ipv4"}, {"ipv6"}, {"ipv4", "ipv6"}))
            entry = {"host": host}
            for family, kind, addresses in (("ipv4", "A", IPV4), ("ipv6", "AAAA", IPV6)):
                if family in families:
                    entry[family] = luck.choice(addresses)
                    records.add((host, kind, entry[family]))
            glue.append(entry)
        ds_texts = luck.sample(DS_TEXTS, luck.randint(0, 2))
        records |= {(self.name, "DS", text) for text in ds_texts}
        self.wanted = records
        return {"nameservers": hosts, "glue": glue, "ds_records": ds_texts}


@dataclass(slots=True)
class Walk:
    """A random walk of two names of one registrant."""

    on: ServiceOn
    ada: Registrant
    luck: random.Random
    walkers: list[Walker]
    told: list[str] = field(default_factory=list)
    """The steps so far, for the message of a failure."""

    def step(self) -> None:
        """Do a random action on a random name, one that its state allows."""
        walker = self.luck.choice(self.walkers)
        moves = {
            "free": [self._register],
            "held": [self._change, self._change, self._change, self._delete, self._suspend],
            "suspended": [self._unsuspend],
            "trashed": [self._restore],
        }
        move = self.luck.choice(moves[walker.state])
        self.told.append(f"{move.__name__.strip('_')} {walker.name}")
        move(walker)

    def is_settled(self) -> bool:
        """True if no change is pending, and the zone has exactly the expected records."""
        return not self.on.service.read(publish_store.count_waiting) and self.on.records() == self.wanted()

    def wanted(self) -> set[Triple]:
        """Return all expected records except those of the apex."""
        return {record for walker in self.walkers for record in walker.standing()}

    def _call(self, status: int, method: str, path: str, body: object = None) -> None:
        answer = self.on.service.call(self.ada, method, path, body)
        assert answer.status_code == status, (self.told, answer.text)

    def _draw(self, walker: Walker) -> dict[str, object]:
        beside = any(each.state != "free" for each in self.walkers if each is not walker)
        return walker.draw(self.luck, beside_neighbour=beside)

    def _register(self, walker: Walker) -> None:
        self._call(201, "POST", "/subdomains", {"fqdn": walker.name, **self._draw(walker)})
        walker.state = "held"

    def _change(self, walker: Walker) -> None:
        self._call(200, "PUT", f"/subdomains/{walker.name}/nameservers", self._draw(walker))
        self.told[-1] += f" to {sorted(walker.wanted)}"

    def _delete(self, walker: Walker) -> None:
        self._call(200, "DELETE", f"/subdomains/{walker.name}")
        walker.state = "trashed"

    def _restore(self, walker: Walker) -> None:
        self._call(200, "POST", f"/subdomains/{walker.name}/restore")
        walker.state = "held"

    def _suspend(self, walker: Walker) -> None:
        self.on.service.operator("subdomain", "suspend", walker.name, "--reason", "abuse")
        walker.state = "suspended"

    def _unsuspend(self, walker: Walker) -> None:
        self.on.service.operator("subdomain", "unsuspend", walker.name)
        walker.state = "held"


@pytest.fixture(params=share(("powerdns",), whole=(BUILT_IN, *KINDS)))
def walk(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Walk]:
    kind: str = request.param
    with service_on(kind, tmp_path_factory.mktemp(kind), publish_wait_ms=0) as on:
        walkers = [Walker(NAMES[0], NAMES[1]), Walker(NAMES[1], NAMES[0])]
        yield Walk(on, on.service.add_user(), random.Random(SEED), walkers)  # noqa: S311 - a walk, no secret
        assert on.service.doctor() == []


def test_no_old_record_is_left(walk: Walk) -> None:
    for number in range(STEPS):
        walk.step()
        if number % 3 != 1:  # sometimes the next change is sent before this one is in the zone
            _settle(walk)
    for walker in walk.walkers:
        if walker.state == "suspended":
            walk._unsuspend(walker)
        if walker.state == "held":
            walk._delete(walker)
    _settle(walk)
    assert walk.on.records() == set()


def _settle(walk: Walk) -> None:
    try:
        wait_until(walk.is_settled)
    except AssertionError:
        assert walk.on.records() == walk.wanted(), "\n".join(walk.told)
