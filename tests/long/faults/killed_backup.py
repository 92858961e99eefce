"""`sublet backup` and `restore` that kill themselves with SIGKILL before the KILL_AT-th step on the disk.

Steps are syncs, links, renames, removals and changes of the owner. test_backup_killed.py runs this as a
program.
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
