"""A fictitious next version of Sublet: a copy of the package with one more migration, which runs in processes
of its own.
"""

import json
import os
import shutil
import subprocess
import sys
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Any

import sublet
from sublet.schema_revision import needed_revision
from support.databases import template

REVISION = "9001"
COLOURED = ("users", "subdomains", "transfers")
"""The tables to which the next version adds a column."""
_MIGRATION = '''"""What the next version needs.

Revision ID: {revision}
Revises: {before}
"""

import sqlalchemy as sa
from alembic import op

revision = "{revision}"
down_revision = "{before}"
branch_labels = None
depends_on = None
compatible_with = {compatible_with!r}


def upgrade() -> None:
    """Add columns to the tables that are used most, and a table."""
    for table in {coloured!r}:
        op.add_column(table, sa.Column("colour", sa.String(16), nullable=False, server_default="blue"))
    op.create_table("colours", sa.Column("name", sa.String(16), primary_key=True))
'''


@dataclass(frozen=True, slots=True)
class NewerVersion:
    """The next version of Sublet."""

    folder: Path

    def start(self, url: str, *words: str) -> "subprocess.Popen[str]":
        """Start a command of the next version with --json, and return its process."""
        return self._start(url, *words, "--json")

    def _start(self, url: str, *words: str) -> "subprocess.Popen[str]":
        environment = {**os.environ, "SUBLET_DATABASE_URL": url, "PYTHONPATH": str(self.folder)}
        return subprocess.Popen(
            [sys.executable, "-m", "sublet.cli.main", *words],
            env=environment,
            text=True,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
        )

    def run(self, url: str, *words: str, expect: int = 0) -> Any:
        """Run a command of the next version with --json, and return its value.

        `expect` is the required exit code.
        """
        return json.loads(_answer(self.start(url, *words), expect))

    def tell(self, url: str, *words: str) -> str:
        """Run a command of the next version, and return the text that it prints."""
        return _answer(self._start(url, *words), 0)


def _answer(process: "subprocess.Popen[str]", expect: int) -> str:
    answer, errors = process.communicate(timeout=300)
    assert process.returncode == expect, (process.args, answer, errors)
    return answer


@cache
def newer_version(*, goes_on: bool) -> NewerVersion:
    """Create the next version, once for all tests, with the compiled modules.

    If `goes_on`, its schema is compatible with this version.
    """
    package = template("newer") / "sublet"
    shutil.copytree(Path(sublet.__file__).parent, package)
    before = needed_revision()
    compatible_with = (before,) if goes_on else ()
    text = _MIGRATION.format(
        revision=REVISION, before=before, coloured=COLOURED, compatible_with=compatible_with
    )
    (package / "migrations" / "versions" / f"v{REVISION}_next.py").write_text(text, encoding="utf-8")
    return NewerVersion(package.parent)
