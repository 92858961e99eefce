"""Names that are registered while the primary is down are published afterwards."""

from pathlib import Path

import pytest

from long.primaries.outage import primary_away
from support.name_servers import KINDS
from support.repetitions import share

pytestmark = pytest.mark.slow


@pytest.mark.parametrize("kind", share(KINDS[:1], whole=KINDS))
def test_all_names_are_published_once_the_primary_is_reachable(kind: str, tmp_path: Path) -> None:
    primary_away(kind, tmp_path, names=share(30, whole=200), away_seconds=share(2, whole=6))
