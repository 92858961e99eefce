"""The command line of `sublet backup` and `restore`, which kills itself with SIGKILL before its KILL_AT-th step on the disk.

A step is whatever the disk keeps of it: waiting for the disk, linking, renaming, removing, changing the owner. Run as a
program by test_backup_killed.py.
"""

import os
import signal
from collections.abc import Callable
from itertools import count
from typing import Any

from sublet.cli.main import main

_passed = count(1)


def _dying_before(fn: Callable[..., Any]) -> Callable[..., Any]:
    def run(*args: Any, **kwargs: Any) -> Any:
        if next(_passed) == int(os.environ["KILL_AT"]):
            os.kill(os.getpid(), signal.SIGKILL)
        return fn(*args, **kwargs)

    return run


for name in ("fsync", "link", "replace", "unlink", "chmod"):
    setattr(os, name, _dying_before(getattr(os, name)))

if __name__ == "__main__":
    main()
