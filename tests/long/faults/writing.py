"""Names that one registrant registers one after the other while something fails: what was acknowledged, and what was refused."""

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field

from long.faults.scenario import Asked
from support.running_service import Registrant, RunningService
from support.serve_process import ServeProcess, serve_process
from support.service_on_primary import ZONE

WRITES_MAX = 3000
"""After so many writes the fault must have been met: a full disk has room in files that are there."""


@dataclass(slots=True)
class Writing:
    """A registrant whose names are registered one after the other, and what was answered."""

    service: RunningService
    who: Registrant
    acknowledged: set[str] = field(default_factory=set)
    refused: set[str] = field(default_factory=set)
    """Answered 503, and so not stored."""
    unknown: set[str] = field(default_factory=set)
    """Answered 503, and nobody knew whether it was stored."""
    _sent: int = 0

    def write(self) -> bool:
        """Register a name; tell whether it was acknowledged."""
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
        (self.unknown if "isn't known" in answer.text else self.refused).add(fqdn)
        return False

    def write_until(self, *, acknowledged: bool, times: int) -> None:
        """Write until so many in a row were acknowledged, or were not."""
        row = 0
        for _ in range(WRITES_MAX):
            row = row + 1 if self.write() is acknowledged else 0
            if row == times:
                return
        raise AssertionError(
            f"{WRITES_MAX} writes and the fault was not met" if not acknowledged else "it does not recover"
        )

    def names(self) -> set[str]:
        """Return the names that the API lists; it must answer."""
        found: set[str] = set()
        cursor = ""
        while True:
            answer = self.service.call(self.who, "GET", f"/subdomains?limit=500{cursor}")
            assert answer.status_code == 200, answer.text
            page = answer.json()
            found |= {each["fqdn"] for each in page["subdomains"]}
            if not page["page"]["has_more"]:
                return found
            cursor = f"&cursor={page['page']['next_cursor']}"

    def check(self) -> None:
        """Check that exactly what was acknowledged is stored."""
        found = self.names()
        assert self.acknowledged <= found, f"acknowledged and lost: {sorted(self.acknowledged - found)}"
        assert not self.refused & found, f"refused and stored: {sorted(self.refused & found)}"


@contextmanager
def serving_a_writer(asked: Asked, url: str) -> Iterator[tuple[ServeProcess, Writing]]:
    """Serve a registry, and give a registrant of it."""
    with serve_process(url, asked.folder, broken=asked.broken, free_quota=10**6) as serving:
        serving.environment["SUBLET_PUBLISH_WAIT_MS"] = "0"
        serving.service.add_domain()
        writing = Writing(serving.service, serving.service.add_user())
        serving.start()
        yield serving, writing
