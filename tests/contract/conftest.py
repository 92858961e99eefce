"""One running service for the many hostile requests of this folder: none of them may change it."""

from collections.abc import Iterator

import pytest

from support.hostile_input import Target, prepare
from support.running_service import registry_address, running_service


@pytest.fixture(scope="session")
def target(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Target]:
    """The service that hostile requests are sent to; every invariant must hold when they are over."""
    with running_service(registry_address(tmp_path_factory.mktemp("hostile"))) as service:
        yield prepare(service)
        assert service.doctor() == []
