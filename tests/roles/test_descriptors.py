"""A process may have as many connections open as its settings say, as far as the system lets it."""

import subprocess
import sys

import pytest

ASK = """
import resource
resource.setrlimit(resource.RLIMIT_NOFILE, ({soft}, {hard}))
{before}
from sublet.service.api_part import allow_connections
print(allow_connections({wanted}), resource.getrlimit(resource.RLIMIT_NOFILE)[0])
"""
FORBIDDEN = """
def forbidden(*words): raise PermissionError(1, "not permitted")
resource.setrlimit = forbidden
"""


def allowed(soft: int, hard: int, wanted: int, before: str = "") -> tuple[int, int]:
    """Ask in a process of its own: what a limit was lowered to can't be raised again."""
    script = ASK.format(soft=soft, hard=hard, wanted=wanted, before=before)
    ran = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, check=True)
    connections, descriptors = ran.stdout.splitlines()[-1].split()
    return int(connections), int(descriptors)


@pytest.mark.parametrize(
    ("soft", "hard", "wanted", "outcome"),
    [
        (512, 4096, 100, (100, 512)),  # enough as it is
        (512, 4096, 1000, (1000, 1256)),  # raised to what is needed
        (512, 1000, 1000, (744, 1000)),  # as far as it may be
        (256, 256, 1000, (1, 256)),
    ],
)
def test_the_system_is_asked_for_what_is_needed(
    soft: int, hard: int, wanted: int, outcome: tuple[int, int]
) -> None:
    assert allowed(soft, hard, wanted) == outcome


def test_where_it_may_not_ask_it_takes_fewer() -> None:
    """Under a filter of system calls, for which this stands."""
    assert allowed(512, 4096, 1000, FORBIDDEN) == (256, 512)
