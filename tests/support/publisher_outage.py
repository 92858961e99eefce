"""The publisher of a running service within reach of a test: to make its name server unreachable, and to hold it."""

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any

import pytest

from sublet.db import Database
from sublet.worker.primary_zone import FindPrimary
from sublet.worker.publisher import Publisher
from support.running_service import RunningService, running_service
from support.serve_process import free_address


@dataclass(slots=True)
class Outage:
    """A running service, whose publisher the test can send to a closed port, or hold."""

    service: RunningService
    publisher: Publisher

    def down(self) -> None:
        """From now on the name server can't be reached by the publisher."""
        self.publisher.built_in.addresses = [free_address()]

    def up(self) -> None:
        """The name server is back."""
        self.publisher.built_in.addresses = [self.service.dns]

    @contextmanager
    def held(self) -> Iterator[None]:
        """Let names wait, so that they become one batch."""

        async def publish_nothing() -> None:
            return

        self.publisher.publish_waiting = publish_nothing  # type: ignore[method-assign]
        try:
            yield
        finally:
            del self.publisher.publish_waiting


@contextmanager
def service_with_outage(
    database_url: str, monkeypatch: pytest.MonkeyPatch, **settings: Any
) -> Iterator[Outage]:
    """Run a service with the platform domain example.test, and give its publisher into the test's hands."""
    made: list[Publisher] = []

    def make(
        db: Database, built_in: Sequence[tuple[str, int]], find_primary: FindPrimary, **options: Any
    ) -> Publisher:
        made.append(Publisher(db, built_in, find_primary, **options))
        return made[-1]

    with monkeypatch.context() as patch:
        patch.setattr("sublet.service.worker_part.Publisher", make)
        with running_service(database_url, **{"free_quota": 10_000, **settings}) as service:
            service.add_domain("example.test")
            yield Outage(service, made[0])
