"""Where registries are: SQLite files in a folder, or databases of a PostgreSQL of the bench's own, which waits for the disk."""

import os
import shutil
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, field
from pathlib import Path

import psycopg

from postgresql import fresh_database, run_postgresql

SQLITE, POSTGRESQL = "SQLite", "PostgreSQL"
SETTINGS = {"shared_buffers": "2GB", "max_wal_size": "4GB"}
"""As an operator would have them who gives PostgreSQL a part of the machine; nothing that loses a write."""


@dataclass(slots=True)
class Place:
    """A folder, and the server in it where there is one; its registries end with it."""

    folder: Path
    server: str = ""
    _stack: ExitStack = field(default_factory=ExitStack)
    _made: int = 0

    def registry(self, like: str = "") -> str:
        """Return the address of a new database, empty or a copy of one that nobody uses at the moment."""
        if self.server:
            return self._stack.enter_context(fresh_database(self.server, like=like or None))
        self._made += 1
        path = self.folder / f"registry{self._made}.db"
        if like:
            shutil.copyfile(like.removeprefix("sqlite:///"), path)
        return f"sqlite:///{path}"

    def settle(self) -> None:
        """Have all that was written so far on the disk: what filling a registry left is not written beside what is measured."""
        if self.server:
            with psycopg.connect(self.server, autocommit=True) as connection:
                connection.execute("CHECKPOINT")
        os.sync()

    def drop(self, url: str) -> None:
        """Delete a registry that is not needed any more."""
        if not self.server:
            for end in ("", "-wal", "-shm", ".serve-lock"):
                Path(url.removeprefix("sqlite:///") + end).unlink(missing_ok=True)
            return
        with psycopg.connect(self.server, autocommit=True) as connection:
            connection.execute(f"DROP DATABASE IF EXISTS {url.rpartition('/')[2]} WITH (FORCE)".encode())


@contextmanager
def place(database: str, folder: Path) -> Iterator[Place]:
    """Make a place for registries on a database."""
    folder.mkdir()
    with ExitStack() as stack:
        server = ""
        if database == POSTGRESQL:
            server = stack.enter_context(run_postgresql(folder, durable=True, settings=SETTINGS))
        yield Place(folder, server, stack)
