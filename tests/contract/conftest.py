"""The service of a module, and one for the hostile requests of this folder, which may not change it."""

from collections.abc import Iterator

import pytest

from support.error_triggers import new_user
from support.hostile_input import Target, prepare
from support.open_registry import opened
from support.running_service import Registrant, RunningService, registry_address, running_service


@pytest.fixture(scope="module")
def shop(
    request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[RunningService]:
    """The service of a module, with the module's `SETTINGS`; every invariant must hold at the end."""
    settings = getattr(request.module, "SETTINGS", {})
    with opened(tmp_path_factory.mktemp("shop"), **settings) as service:
        yield service


@pytest.fixture
def ada(shop: RunningService) -> Registrant:
    """A new user of the module's service."""
    return new_user(shop)


@pytest.fixture(scope="session")
def target(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Target]:
    """The service that hostile requests are sent to; every invariant must hold when they are over."""
    with running_service(registry_address(tmp_path_factory.mktemp("hostile"))) as service:
        yield prepare(service)
        assert service.doctor() == []
