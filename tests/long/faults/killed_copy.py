"""The command line of `sublet copy`, which kills itself with SIGKILL once the rows of the table that
KILL_AFTER names are written.

With `commit` for a table it does so before the commit, when all was checked. Run as a program by
test_copy.py.
"""

import os
import signal
from collections.abc import Iterable
from typing import Any

from sqlalchemy import Table

from sublet.cli.main import main
from sublet.db import Tx
from sublet.registry import copy as copying
from sublet.registry import copy_store

_add_rows, _copied = copy_store.add_rows, copying.CopyResult
_after = os.environ["KILL_AFTER"]


def _add(tx: Tx, table: Table, rows: Iterable[tuple[Any, ...]]) -> None:
    _add_rows(tx, table, rows)
    if table.name == _after:
        os.kill(os.getpid(), signal.SIGKILL)


def _checked(*args: Any, **kwargs: Any) -> Any:
    if _after == "commit":
        os.kill(os.getpid(), signal.SIGKILL)
    return _copied(*args, **kwargs)


copy_store.add_rows = _add
copying.CopyResult = _checked  # type: ignore[misc, assignment]

if __name__ == "__main__":
    main()
