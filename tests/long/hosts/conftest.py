"""Fixtures of the trials of many processes."""

import tempfile
from collections.abc import Iterator
from pathlib import Path

import pytest


@pytest.fixture
def short_folder() -> Iterator[Path]:
    """A folder with a short path for sockets, which PostgreSQL's user may enter."""
    with tempfile.TemporaryDirectory(prefix="hosts-") as folder:
        yield Path(folder)
