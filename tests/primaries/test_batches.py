"""The number of names in a message to a primary: all waiting names, up to the maximum in the settings of this
primary.
"""

from collections.abc import Iterator
from contextlib import ExitStack
from dataclasses import dataclass, field, replace
from pathlib import Path

import dns.message
import dns.opcode
import pytest

from sublet.config import PrimarySettings
from sublet.primaries import primary_zone
from sublet.primaries.update import fence_name
from support.dns_proxy import dns_proxy
from support.primary_faults import register
from support.service_on_primary import ZONE, ServiceOn, service_on
from support.waiting import wait_until

pytestmark = pytest.mark.slow

BATCH_MAX = 7


@dataclass(slots=True)
class Passed:
    """A proxy that records the number of names in each UPDATE message. While `is_shut` it forwards none."""

    name_counts: list[int] = field(default_factory=list)
    is_shut: bool = False

    def __call__(self, wire: bytes) -> bytes | None:
        message = dns.message.from_wire(wire, keyring=False)
        if self.is_shut:
            return None
        if message.opcode() == dns.opcode.UPDATE:
            owners = {rrset.name.to_text(omit_final_dot=True) for rrset in message.sections[2]}
            self.name_counts.append(len(owners - {fence_name(ZONE)}))
        return wire


@pytest.fixture
def passed() -> Passed:
    return Passed()


@pytest.fixture
def on(tmp_path: Path, passed: Passed) -> Iterator[ServiceOn]:
    with ExitStack() as stack:

        def before(section: PrimarySettings) -> PrimarySettings:
            proxy = stack.enter_context(dns_proxy((section.address, section.port)))
            proxy.on_query = passed
            return replace(section, port=proxy.address[1], batch_max=BATCH_MAX)

        yield stack.enter_context(service_on("knot", tmp_path, before=before, publish_wait_ms=0))


def test_no_message_has_more_names_than_the_settings_allow(
    on: ServiceOn, passed: Passed, monkeypatch: pytest.MonkeyPatch
) -> None:
    ada = on.service.add_user()
    monkeypatch.setattr(primary_zone, "TIMEOUT_SECONDS", 0.5)
    passed.is_shut = True
    first = register(on, ada)
    wait_until(lambda: on.state().problem == "no_answer")
    waiting = [first, *(register(on, ada) for _ in range(3 * BATCH_MAX))]
    monkeypatch.undo()
    passed.is_shut = False
    for fqdn in waiting:
        on.wait_until_active(ada, fqdn)
    assert max(passed.name_counts) == BATCH_MAX, passed.name_counts
    assert {owner for owner, _, _ in on.records()} == set(waiting)
