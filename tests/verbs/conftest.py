"""The fixture that the tests of tickets share."""

from collections.abc import Iterator
from pathlib import Path

import pytest

from support.ticket_house import House, ticket_house


@pytest.fixture
def house(tmp_path: Path) -> Iterator[House]:
    with ticket_house(tmp_path) as house:
        yield house
