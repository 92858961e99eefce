"""A registrant that registers names one after the other during a fault, and remembers the answers."""

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field

from long.scenario import Trial
from support.running_service import Registrant, RunningService
from support.serve_process import ServeProcess, serve_process
from support.service_on_primary import ZONE

WRITES_MAX = 3000
"""How many writes until the fault must be seen: on a full disk, existing files still have room."""


@dataclass(slots=True)
class Writing:
    """A registrant, and the names whose registration was acknowledged or refused."""

    service: RunningService
    who: Registrant
    acknowledged: set[str] = field(default_factory=set)
    refused: set[str] = field(default_factory=set)
    """Answered 503 and not stored."""
    unknown: set[str] = field(default_factory=set)
    """Answered 503 with a message that the outcome is unknown."""
    _sent: int = 0

    def write(self) -> bool:
        """Register a name; return True if it was acknowledged."""
        self._sent += 1
        fqdn = f"n{self._sent}.{ZONE}"
        body = {"fqdn": fqdn, "nameservers": ["ns.provider.example", f"ns{self._sent}.provider.example"]}
        answer = self.service.call(self.who, "POST", "/subdomains", body)
        if answer.status_code == 201:
            self.acknowledged.add(fqdn)
            return True
        assert answer.status_code == 503, answer.text
        assert int(answer.headers["retry-after"]) >= 1
        assert answer.json()["error"] == "unavailable", answer.text
        (self.unknown if "is unknown" in answer.text else self.refused).add(fqdn)
        return False

    def write_until(self, *, acknowledged: bool, times: int) -> None:
        """Write until `times` writes in a row were acknowledged, or refused."""
        row = 0
        for _ in range(WRITES_MAX):
            row = row + 1 if self.write() is acknowledged else 0
            if row == times:
                return
        raise AssertionError(
            f"{WRITES_MAX} writes without the fault" if not acknowledged else "the service does not recover"
        )

    def check(self) -> None:
        """Check that acknowledged names are stored and refused names are not."""
        found = {each["fqdn"] for each in self.service.list_all(self.who, "/subdomains", "subdomains")}
        assert self.acknowledged <= found, f"acknowledged and lost: {sorted(self.acknowledged - found)}"
        assert not self.refused & found, f"refused and stored: {sorted(self.refused & found)}"


@contextmanager
def serving_a_writer(trial: Trial, url: str) -> Iterator[tuple[ServeProcess, Writing]]:
    """Serve a registry; yield the process and a registrant."""
    with serve_process(url, trial.folder, broken=trial.broken, free_quota=10**6) as serving:
        serving.environment["SUBLET_PUBLISH_WAIT_MS"] = "0"
        serving.service.add_domain()
        writing = Writing(serving.service, serving.service.add_user())
        serving.start()
        yield serving, writing
