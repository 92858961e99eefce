"""Fixtures of the tests on real primaries: a service on each kind of primary, and a registrant.

A file may define its own `on`.
"""

from collections.abc import Iterator

import pytest

from support.name_servers import KINDS
from support.repetitions import share
from support.running_service import Registrant
from support.service_on_primary import ServiceOn, service_on


@pytest.fixture(scope="module", params=share(("bind",), whole=KINDS))
def on(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Iterator[ServiceOn]:
    with service_on(request.param, tmp_path_factory.mktemp(request.param), publish_wait_ms=0) as found:
        yield found


@pytest.fixture(scope="module")
def ada(on: ServiceOn) -> Registrant:
    return on.service.add_user()
