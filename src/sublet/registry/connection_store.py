"""All SQL of the two sides of a copy: one transaction each, and what keeps others away."""

from collections.abc import Iterator
from contextlib import AbstractContextManager, contextmanager, nullcontext
from pathlib import Path

from sqlalchemy import Engine
from sqlalchemy.exc import DBAPIError

from sublet.db import Tx, utc_now
from sublet.errors import Unavailable
from sublet.registry.copy_store import as_refusal
from sublet.schema_revision import open_engine
from sublet.serve_lock import serve_lock
from sublet.sqlite_copy import BESIDE


@contextmanager
def open_source(url: str, path: Path | None) -> Iterator[Tx]:
    """Read one state of a registry, which nobody changes meanwhile on SQLite; `path` is its file there.

    Raises:
        Unavailable: it isn't there, is served, or can't be read.
    """
    if path is not None and not path.exists():
        raise Unavailable(f"There is no registry at the source: {path} does not exist. Check the address.")
    engine = open_engine(url)
    options = (
        {"isolation_level": "REPEATABLE READ", "postgresql_readonly": True}
        if path is None
        else {"sublet_begin": "BEGIN IMMEDIATE"}
    )
    try:
        with _lock(path):
            try:
                connection = engine.execution_options(**options).connect()
                connection.begin()
            except DBAPIError as error:
                raise as_refusal("Opening the source", error) from error
            with connection:  # what is open is rolled back
                yield Tx(connection, utc_now())
    finally:
        engine.dispose()


@contextmanager
def open_target(url: str, path: Path | None) -> Iterator[Tx]:
    """Write a registry in one transaction, which commits at the end; a file that was not there before is removed if it doesn't.

    Raises:
        Unavailable: it is served, or can't be written.
    """
    engine = open_engine(url)
    try:
        with _lock(path), _removed_unless_done(path, engine):
            try:
                with engine.execution_options(sublet_begin="BEGIN IMMEDIATE").begin() as connection:
                    yield Tx(connection, utc_now())
            except DBAPIError as error:
                raise as_refusal("Writing the target", error) from error
    finally:
        engine.dispose()


@contextmanager
def _removed_unless_done(path: Path | None, engine: Engine) -> Iterator[None]:
    """Remove a file that isn't there yet, when what makes it fails; its lock is held, so nobody else can have made it."""
    is_new = path is not None and not path.exists()
    try:
        yield
    except BaseException:
        engine.dispose()
        if path is not None and is_new:
            for suffix in ("", *BESIDE, ".serve-lock"):
                path.with_name(path.name + suffix).unlink(missing_ok=True)
        raise


def _lock(path: Path | None) -> AbstractContextManager[None]:
    return nullcontext() if path is None else serve_lock(path)
