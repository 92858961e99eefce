"""A running service with a zone on Knot. A test can stop the name server, and pause the publisher."""

import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

from sublet.db import Database
from sublet.primaries.primary_zone import FindPrimary
from sublet.primaries.publisher import Publisher
from support.name_servers import NameServerProcess
from support.running_service import RunningService
from support.service_on_primary import ServiceOn, service_on


@dataclass(slots=True)
class Outage:
    """A running service with example.test on Knot. The test can stop the server and pause the publisher."""

    on: ServiceOn
    publisher: Publisher

    @property
    def service(self) -> RunningService:
        return self.on.service

    @property
    def server(self) -> NameServerProcess:
        """The primary of example.test."""
        return self.on.primary

    def down(self) -> None:
        """Stop the name server."""
        self.server.stop()

    def up(self) -> None:
        """Start the name server again."""
        self.server.start()

    @contextmanager
    def held(self) -> Iterator[None]:
        """Pause the publisher, so that the waiting names become one batch."""

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
    """Run Knot, and a service with the platform domain example.test on it."""
    made: list[Publisher] = []

    def make(db: Database, find_primary: FindPrimary, **options: Any) -> Publisher:
        made.append(Publisher(db, find_primary, **options))
        return made[-1]

    with monkeypatch.context() as patch, tempfile.TemporaryDirectory(prefix="sublet-outage-") as folder:
        patch.setattr("sublet.service.worker_part.Publisher", make)
        with service_on("knot", Path(folder), database_url=database_url, **settings) as running:
            yield Outage(running, made[0])
