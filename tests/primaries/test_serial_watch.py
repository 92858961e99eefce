"""The watch of serials, on a Knot and its secondary: away, behind, ahead, and current again."""

import asyncio
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path

import pytest
import structlog

from sublet.dns.serial import SerialUnknown, query_serial
from sublet.dns.types import Primary, Secondary
from sublet.mail.store import lock_waiting
from sublet.primaries.primary import PrimaryFault
from sublet.primaries.serial_watch import FOLLOW_SECONDS, NOTICE_SECONDS, SerialQueries, SerialWatch, Standing
from support.free_ports import free_address
from support.name_servers import NameServerProcess, primary, secondary
from support.registry import Prepared, Registry, open_registry
from support.waiting import wait_until

ZONE = "zone.test"
HOST = "ns2.example.net"
pytestmark = pytest.mark.slow


@dataclass
class Followed:
    """A zone on a primary with a secondary, and the watch of both, whose clock the test moves."""

    registry: Registry
    first: NameServerProcess
    second: NameServerProcess
    seconds: float = 0.0
    settings_fault: PrimaryFault | None = None
    watch: SerialWatch = field(init=False)

    def __post_init__(self) -> None:
        self.watch = SerialWatch(self.registry.db, self._find, lambda: self.seconds)
        self.wait_for_answers(60)

    def wait_for_answers(self, seconds: float) -> None:
        """Set how long the watch waits for each answer."""
        self.watch._queries = SerialQueries(seconds)

    def _find(self, name: str) -> Primary:
        if self.settings_fault is not None:
            raise self.settings_fault
        return self.first.as_primary(name)

    def look(self) -> tuple[Standing, Standing]:
        self.registry.run(self.watch.poll())
        first, second = self.watch.standings
        assert (first.zone, first.role, first.server) == (ZONE, "primary", "main")
        assert (second.zone, second.role, second.server) == (ZONE, "secondary", HOST)
        return first, second

    def change(self, label: str) -> None:
        self.first.nsupdate([f"add {label}.{ZONE} 300 A 192.0.2.1"])

    def hold_transfers(self, held: bool) -> None:
        """Stop the secondary's transfers while it still answers, or resume them."""
        verb = "zone-freeze" if held else "zone-thaw"
        self.second.run(["knotc", "-b", "-s", f"{self.second.folder}/r/knot.sock", verb, ZONE])

    def wait_until_followed(self) -> None:
        wait_until(lambda: self.first.serial() == self.second.serial())


@pytest.fixture
def followed(tmp_path: Path, sqlite_registry: Prepared) -> Iterator[Followed]:
    address = free_address("127.0.0.2")
    named = Secondary(HOST, *address)
    url = f"sqlite:///{tmp_path}/registry.db"
    (tmp_path / "registry.db").write_bytes(Path(sqlite_registry.url.removeprefix("sqlite:///")).read_bytes())
    with (
        primary("knot", tmp_path / "first", ZONE, secondaries=[named]) as first,
        secondary("knot", tmp_path / "second", of=first, address=address) as second,
        open_registry(url, sqlite_registry) as registry,
    ):
        wait_until(lambda: first.serial() == second.serial())
        # The zone of the prepared registry is on the built-in name server, which isn't watched.
        registry.add_domain(ZONE, primary="main", secondaries=(named,))
        yield Followed(registry, first, second)


def test_a_secondary_falls_behind_and_catches_up(followed: Followed) -> None:
    first, second = followed.look()
    assert (first.standing, second.standing, second.lag_seconds) == ("current", "current", 0.0)
    assert first.serial == second.serial == followed.first.serial()
    followed.hold_transfers(True)
    followed.change("a")
    followed.seconds += 1
    _, second = followed.look()
    assert (second.standing, second.lag_seconds) == ("current", 0.0)
    followed.change("b")
    followed.seconds += FOLLOW_SECONDS
    assert followed.look()[1].standing == "current"
    followed.seconds += 1
    with structlog.testing.capture_logs() as logs:
        first, second = followed.look()
        followed.look()
    assert (second.standing, second.lag_seconds) == ("behind", FOLLOW_SECONDS + 1)
    assert second.serial != first.serial
    (told,) = logs
    assert (told["event"], told["log_level"]) == ("name_server_standing", "warning")
    assert (told["server"], told["standing"], told["before"]) == (HOST, "behind", "current")
    followed.seconds += NOTICE_SECONDS - 1
    followed.look()
    assert followed.registry.read(lock_waiting, 10) == []
    for _ in range(2):
        followed.seconds += NOTICE_SECONDS
        followed.look()
    (notice,) = followed.registry.read(lock_waiting, 10)  # a second one on the same day is left out
    assert notice.text.startswith(
        f"The zone {ZONE} has a problem: the secondary {HOST} is behind (it has lacked changes for 6"
    )
    followed.hold_transfers(False)
    followed.wait_until_followed()
    with structlog.testing.capture_logs() as logs:
        _, second = followed.look()
    assert (second.standing, second.lag_seconds) == ("current", 0.0)
    assert [(each["log_level"], each["standing"]) for each in logs] == [("info", "current")]


def test_a_frozen_secondary_is_away_and_its_lag_counts_afterwards(followed: Followed) -> None:
    followed.look()
    followed.hold_transfers(True)
    followed.second.freeze()
    followed.wait_for_answers(2)
    followed.change("a")
    followed.seconds += 1
    first, second = followed.look()
    assert first.standing == "current"
    assert (second.standing, second.serial, second.lag_seconds) == ("away", None, None)
    assert second.cause == "no_answer"
    followed.seconds += 60
    followed.change("b")
    followed.look()
    followed.second.thaw()
    followed.wait_for_answers(60)
    wait_until(lambda: followed.look()[1].standing != "away")
    _, second = followed.look()
    assert (second.standing, second.lag_seconds) == ("behind", 60.0)
    followed.hold_transfers(False)
    followed.wait_until_followed()
    assert followed.look()[1].standing == "current"


def test_a_primary_that_is_stopped_or_missing_in_the_settings_is_away(followed: Followed) -> None:
    followed.first.kill()
    with structlog.testing.capture_logs() as logs:
        first, second = followed.look()
    assert (first.standing, first.serial, first.cause) == ("away", None, "unreachable")
    assert (second.standing, second.lag_seconds) == ("unjudged", None)
    assert second.serial == followed.second.serial()
    assert [(each["server"], each["standing"]) for each in logs] == [("main", "away")]
    followed.first.start()
    wait_until(lambda: [each.standing for each in followed.look()] == ["current", "current"])
    followed.settings_fault = PrimaryFault("settings", "the settings have no primary 'main'", certain=True)
    first, second = followed.look()
    assert (first.standing, first.cause) == ("away", "settings")
    assert second.standing == "unjudged"
    _check_causes(followed)


def test_a_secondary_is_ahead_of_a_rebuilt_primary(followed: Followed) -> None:
    for label in ("a", "b", "c", "d", "e"):
        followed.change(label)
    followed.wait_until_followed()
    followed.look()
    before = followed.first.serial()
    followed.first.rebuild()
    assert followed.first.serial() < before
    _, second = followed.look()
    assert (second.standing, second.serial, second.lag_seconds) == ("ahead", before, 0.0)
    assert followed.first.serial() > before  # the watch has raised it
    followed.wait_until_followed()
    assert followed.look()[1].standing == "current"


def _check_causes(followed: Followed) -> None:
    """Check the causes of an unknown serial."""

    def cause(address: tuple[str, int], zone: str, seconds: float = 60) -> str:
        with pytest.raises(SerialUnknown) as caught:
            asyncio.run(query_serial(address, zone, timeout_seconds=seconds))
        return caught.value.cause

    address = followed.first.address, followed.first.port
    assert asyncio.run(query_serial(address, ZONE, timeout_seconds=60)) == followed.first.serial()
    assert cause(free_address(), ZONE) == "unreachable"
    assert cause(address, "other.test") == "zone"
    assert cause(address, f"below.{ZONE}") == "not_understood"  # NXDOMAIN: the name is not a zone
    followed.first.freeze()
    assert cause(address, ZONE, 1) == "no_answer"
    followed.first.thaw()
