"""One running service for the many hostile requests of this folder: none of them may change it."""

from collections.abc import Iterator

import pytest

from hostile import Target, prepare
from service import running_service


@pytest.fixture(scope="session")
def target(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Target]:
    """The service that hostile requests are sent to; every invariant must hold when they are over."""
    with running_service(f"sqlite:///{tmp_path_factory.mktemp('hostile')}/registry.db") as service:
        yield prepare(service)
        assert service.doctor() == []
