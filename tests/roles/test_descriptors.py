"""A process may have as many connections open as its settings say, within the
system's limit of open files.
"""

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
def forbidden(*words): raise ValueError("not allowed to raise maximum limit")
resource.setrlimit = forbidden
"""


def allowed(soft: int, hard: int, wanted: int, before: str = "") -> tuple[int, int]:
    """Run it in a process of its own, because a lowered hard limit can't be raised again."""
    script = ASK.format(soft=soft, hard=hard, wanted=wanted, before=before)
    ran = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, check=True)
    connections, descriptors = ran.stdout.splitlines()[-1].split()
    return int(connections), int(descriptors)


@pytest.mark.parametrize(
    ("soft", "hard", "wanted", "outcome"),
    [
        (512, 4096, 1000, (1000, 4096)),
        (512, 1000, 1000, (744, 1000)),
        (256, 256, 1000, (1, 256)),
    ],
)
def test_the_limit_is_raised_as_far_as_allowed(
    soft: int, hard: int, wanted: int, outcome: tuple[int, int]
) -> None:
    assert allowed(soft, hard, wanted) == outcome


def test_without_the_right_to_raise_the_limit_fewer_connections_are_allowed() -> None:
    """CPython raises this ValueError if a filter of system calls answers EPERM."""
    assert allowed(512, 4096, 1000, FORBIDDEN) == (256, 512)
