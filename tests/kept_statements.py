"""Statements compiled once for all tests of a process.

Each test opens a database of its own, and SQLAlchemy compiles each statement anew for each: a third of the tests' time. What it
makes depends on the statement and the kind of database alone, so that one memory serves all databases of a kind.
"""

from collections.abc import Iterator
from contextlib import contextmanager
from functools import cache
from typing import Any

import pytest
from sqlalchemy import Engine, create_engine
from sqlalchemy.engine import make_url
from sqlalchemy.util import LRUCache

STATEMENTS_MAX = 4000
"""More than there are; what migrations run is new each time, and has to go again."""


class _OfAKind(LRUCache[Any, Any]):
    """SQLAlchemy's memory of compiled statements, but for every engine of a kind: its keys begin with the engine's dialect."""

    def __getitem__(self, key: Any) -> Any:
        return super().__getitem__(key[1:])

    def get(self, key: Any, default: Any = None) -> Any:
        return super().get(key[1:], default)

    def __setitem__(self, key: Any, value: Any) -> None:
        super().__setitem__(key[1:], value)


@cache
def _kept(drivername: str) -> _OfAKind:
    return _OfAKind(STATEMENTS_MAX)


def _create_engine(url: Any, **options: Any) -> Engine:
    return create_engine(
        url, execution_options={"compiled_cache": _kept(make_url(url).drivername)}, **options
    )


@contextmanager
def statements_kept() -> Iterator[None]:
    """From now on, every database that is opened shares what was compiled."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr("sublet.db.create_engine", _create_engine)
        yield
