"""The lock of the one serving process of an embedded database: a file beside it, which the kernel frees whatever happens."""

import fcntl
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from sublet.errors import Unavailable


@contextmanager
def serve_lock(database: Path) -> Iterator[None]:
    """Hold the lock of this SQLite file: two workers would fight over the zones, and none may run while it is replaced.

    Raises:
        Unavailable: another process holds it, or its file can't be written.
    """
    path = database.with_name(database.name + ".serve-lock")
    try:
        file = path.open("w")
    except OSError as error:
        raise Unavailable(
            f"The file {path} can't be written: {error.strerror}. Check the rights of its folder."
        ) from error
    with file:
        try:
            fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except OSError as error:
            raise Unavailable(
                f"Another `sublet serve` has the database {database}; stop that one first."
            ) from error
        yield
