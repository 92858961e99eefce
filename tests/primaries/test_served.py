"""GET …/delegation on real servers: a primary of each kind with a secondary; agreement, hand edits, servers
that hang or are behind.
"""

from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

from sublet.dns.types import Secondary
from support.free_ports import free_address
from support.name_servers import KINDS, NameServerProcess, secondary
from support.repetitions import share
from support.running_service import DS, Registrant
from support.service_on_primary import ServiceOn, service_on
from support.waiting import wait_until

NAME = "blog.example.test"
HOST = f"ns1.{NAME}"
pytestmark = pytest.mark.slow
DELEGATION: dict[str, Any] = {
    "nameservers": ["ns1.provider.example", HOST],
    "glue": [{"host": HOST, "ipv4": "8.8.4.4", "ipv6": "2001:4860::1"}],
    "ds_records": [DS],
}
IN_TIME = "The name server did not answer in time."


@dataclass(slots=True)
class Pair:
    """A service whose zone stands on a primary, and its secondary."""

    on: ServiceOn
    secondary: NameServerProcess
    ada: Registrant

    @property
    def primary(self) -> NameServerProcess:
        return self.on.primary

    def seen(self) -> dict[str, Any]:
        answer = self.on.service.call(self.ada, "GET", f"/subdomains/{NAME}/delegation")
        assert answer.status_code == 200, answer.text
        found: dict[str, Any] = answer.json()["delegation"]
        assert [(each["server"], each["role"]) for each in found["servers"]] == [
            ("ns1.example.test", "primary"),
            ("ns2.else.example", "secondary"),
        ]
        # Users don't see the servers' addresses. The advice has the path of a request, which contains "main".
        text = answer.text.replace("/subdomains/", "")
        for hidden in ("127.0.0.", str(self.primary.port), "main"):
            assert hidden not in text
        return found

    def wait_for(self, *matches: bool | None) -> dict[str, Any]:
        wait_until(lambda: [each["matches"] for each in self.seen()["servers"]] == list(matches))
        return self.seen()

    def differences(self) -> list[str | None]:
        return [each["difference"] for each in self.seen()["servers"]]


@pytest.fixture(params=share(KINDS[:1], whole=KINDS))
def pair(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[Pair]:
    yield from paired(request.param, tmp_path)


def paired(kind: str, folder: Path) -> Iterator[Pair]:
    """Knot as the secondary: it has its former zone after a kill."""
    host, port = free_address("127.0.0.2")
    watched = Secondary("ns2.else.example", host, port)
    with (
        service_on(kind, folder, secondaries=[watched], publish_wait_ms=1500) as on,
        secondary("knot", folder / "secondary", of=on.primary, address=(host, port)) as second,
    ):
        ada = on.service.add_user()
        on.service.register(ada, NAME, **DELEGATION)
        found = Pair(on, second, ada)
        found.wait_for(True, True)
        yield found


def test_each_server_is_reported_with_its_answer(pair: Pair) -> None:
    found = pair.seen()
    assert (found["in_agreement"], found["summary"]) == (
        True,
        f"All 2 name servers answer with the stored delegation of {NAME}. No action is needed.",
    )
    for each in found["servers"]:
        assert each["serial"] >= found["published"]["serial"]
        assert each["nameservers"] == sorted(DELEGATION["nameservers"])
        assert each["glue"] == DELEGATION["glue"]
        assert each["ds_records"] == found["stored"]["ds_records"]

    pair.primary.nsupdate([f"delete {NAME} NS ns1.provider.example.", f"delete {NAME} DS"])
    by_hand = pair.wait_for(False, False)
    digest = found["stored"]["ds_records"][0]["digest"]
    sentence = f"Missing: DS 2371 13 2 {digest} and nameserver ns1.provider.example."
    assert pair.differences() == [sentence, sentence]
    assert "Another program changed the zone" in by_hand["summary"]

    pair.on.service.call(pair.ada, "DELETE", f"/subdomains/{NAME}")
    gone = pair.wait_for(True, True)
    assert gone["summary"].startswith(f"{NAME} is in the trash, so all 2 name servers have no delegation")
    pair.primary.nsupdate([f"add {HOST} 3600 A 8.8.4.4"])
    pair.wait_for(False, False)
    left_over = f"{NAME} should not be in the DNS, but has glue {HOST} 8.8.4.4."
    assert pair.differences() == [left_over, left_over]


@pytest.mark.whole
def test_a_frozen_primary_and_a_secondary_behind_it(pair: Pair) -> None:
    pair.primary.freeze()
    found = pair.wait_for(None, True)
    assert [each["error"] for each in found["servers"]] == [IN_TIME, None]
    assert found["summary"].startswith("ns1.example.test did not answer in time.")
    pair.primary.thaw()
    pair.wait_for(True, True)

    # It can't catch up while the primary is frozen. Knot writes the zone file
    # every hour, so the test flushes it before the kill.
    pair.secondary.run(["knotc", "-b", "-c", pair.secondary.configuration, "zone-flush", pair.secondary.zone])
    pair.secondary.kill()
    away = pair.wait_for(True, None)
    assert away["servers"][1]["error"] == "The name server can't be reached."
    assert "ns2.else.example can't be reached." in away["summary"]
    pair.on.service.call(pair.ada, "PUT", f"/subdomains/{NAME}/nameservers", {"ds_records": []})
    serial = pair.wait_for(True, None)["published"]["serial"]
    pair.primary.freeze()
    pair.secondary.start()
    behind = pair.wait_for(None, False)
    assert behind["servers"][1]["difference"] == (
        f"Not in the stored delegation: DS {DS.lower()}. The server's zone has the serial "
        f"{behind['servers'][1]['serial']}, but the last change has {serial}, so the change has not reached "
        "the server yet."
    )
    pair.primary.thaw()
