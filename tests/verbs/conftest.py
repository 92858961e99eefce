"""The fixture that the tests of tickets share."""

from collections.abc import Iterator
from pathlib import Path

import pytest

from support.help_desk import HelpDesk, help_desk


@pytest.fixture
def desk(tmp_path: Path) -> Iterator[HelpDesk]:
    with help_desk(tmp_path) as desk:
        yield desk
