"""No operation of the API is without a method and a command, and the pages that say so are generated."""

import sys
from pathlib import Path

import pytest

sys.path.append(str(Path(__file__).resolve().parents[2] / "tools"))
import client_coverage
import generate_client
import generate_subletctl

COVERAGE = client_coverage.coverage()


@pytest.mark.parametrize("operation", [each.name for each in generate_client.FOR_PROGRAMS])
def test_every_operation_has_a_command_or_a_reason(operation: str) -> None:
    """Give a new operation a place in tools/generate_client.py, and a command that `uses` it. Its method: test_generated.py."""
    reason = client_coverage.NOT_IN_SUBLETCTL.get(operation)
    assert (reason is None) == bool(COVERAGE[operation][client_coverage.SUBLETCTL])


def test_reasons_name_existing_operations() -> None:
    assert client_coverage.NOT_IN_SUBLETCTL.keys() <= COVERAGE.keys()


@pytest.mark.parametrize(
    "operation", ["register", "delete", "update_nameservers", "restore", "set_auto_renew"]
)
def test_every_client_has_what_all_users_need(operation: str) -> None:
    assert all(COVERAGE[operation].values())


def test_the_table_and_the_man_page_are_up_to_date() -> None:
    """Run `make client` after a change of a client."""
    text = client_coverage.PAGE.read_text(encoding="utf-8")
    assert client_coverage.page(text) == text
    assert generate_subletctl.MAN_PAGE.read_text(encoding="utf-8") == generate_subletctl.man_page()
