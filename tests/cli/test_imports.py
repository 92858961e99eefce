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


def test_listing_users_loads_no_verbs() -> None:
    """The shapes of the API, the templates of mail and the stores of names took most of the time of `user
    list`.
    """
    listing = (
        "import sys; from sublet.cli.main import app; app(['user', 'list', '--json'], standalone_mode=False)"
    )
    told = subprocess.run(
        [sys.executable, "-X", "importtime", "-c", listing], capture_output=True, text=True, check=False
    )
    loaded = {line.rpartition("|")[2].strip() for line in told.stderr.splitlines()}
    assert "sublet.accounts.store" in loaded
    others = ("sublet.http.", "sublet.subdomains.", "sublet.tickets.", "sublet.mail.", "sublet.health.")
    assert [each for each in loaded if each.startswith(others)] == []
    assert {"jinja2", "cryptography", "dns.message"}.isdisjoint(loaded)
