"""The program that checks a whole zone runs below the API's priority."""

import os
import subprocess
import sys

from support.serve_process import wait_until

LOWEST = 19


def test_it_lowers_its_own_priority() -> None:
    wanted = min(os.nice(0) + 10, LOWEST)
    checking = subprocess.Popen(
        [sys.executable, "-m", "sublet.primaries.check_process"], stdin=subprocess.PIPE
    )
    try:
        wait_until(lambda: os.getpriority(os.PRIO_PROCESS, checking.pid) == wanted)
    finally:
        checking.kill()
        checking.communicate()
