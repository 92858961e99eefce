"""The service is killed and started again while the Python client registers paid names: each is paid once,
and none is left unknown.
"""

from pathlib import Path

from long.faults.killed_client import run
from long.scenario import SQLITE, Trial
from support.repetitions import share

KILLS = share(2, whole=100)


def test_each_name_is_paid_once_while_the_service_is_killed(tmp_path: Path) -> None:
    run(Trial(tmp_path, SQLITE, KILLS, seed=30))
