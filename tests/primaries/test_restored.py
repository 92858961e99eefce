"""A registry restored from a backup that is older than its zone on a primary: newer names survive and are
listed.
"""

from pathlib import Path

import pytest

from long.faults.old_backup import OLD_BACKUP
from long.scenario import POSTGRESQL, SQLITE, Trial

pytestmark = pytest.mark.slow

ON = [("knot", SQLITE), ("bind", POSTGRESQL), ("powerdns", SQLITE)]


@pytest.mark.whole
@pytest.mark.parametrize(("kind", "database"), ON)
def test_a_zone_newer_than_the_restored_registry_keeps_its_names(
    kind: str, database: str, tmp_path: Path
) -> None:
    OLD_BACKUP.run(Trial(tmp_path, database, 1, 1, kind))
