"""Fixtures of the trials of many processes."""

import tempfile
from collections.abc import Iterator
from pathlib import Path

import pytest

from support.dns_updates import skip_without


@pytest.fixture
def short_folder() -> Iterator[Path]:
    """A folder with a short path, which others may enter: sockets lie in it, and PostgreSQL runs as another user."""
    skip_without("knot")
    with tempfile.TemporaryDirectory(prefix="hosts-") as folder:
        yield Path(folder)
