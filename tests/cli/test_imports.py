"""What a command loads: libraries that it has no use for would cost each start their time."""

import subprocess
import sys

import pytest

NEVER = {"alembic", "mako", "psycopg", "dns.resolver"}


@pytest.mark.parametrize("module", ["sublet.cli.user", "sublet.service.roles", "sublet.service.api_part"])
def test_libraries_of_other_commands_are_not_loaded(module: str) -> None:
    """Alembic is for `init` and `migrate`, psycopg for PostgreSQL."""
    told = subprocess.run(
        [sys.executable, "-c", f"import {module}, sys; print(*sys.modules)"],
        capture_output=True,
        text=True,
        check=True,
    )
    assert NEVER.isdisjoint(told.stdout.split())
    assert "sqlalchemy" in told.stdout.split()
