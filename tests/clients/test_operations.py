"""No operation of the API is without a method and a command, and the pages that say so are generated."""

import sys
from pathlib import Path

import pytest

sys.path.append(str(Path(__file__).resolve().parents[2] / "tools"))
import generate_client
import generate_subletctl

OPERATIONS = list(generate_subletctl.operations())


@pytest.mark.parametrize("operation", OPERATIONS, ids=[each[0] for each in OPERATIONS])
def test_every_operation_has_a_method_and_a_command(operation: tuple[str, str, str]) -> None:
    """Or a reason. Give a new operation a place in tools/generate_client.py, and a command that `uses` it."""
    name, method, command = operation
    assert command, name
    assert method or command == generate_subletctl.BROWSER


def test_reasons_are_for_operations_that_have_no_command() -> None:
    assert all(
        reason == command
        for name, reason in generate_subletctl.NOT_IN_SUBLETCTL.items()
        for each, _, command in OPERATIONS
        if each == name
    )
    assert generate_subletctl.NOT_IN_SUBLETCTL.keys() <= {each for each, _, _ in OPERATIONS}


def test_commands_use_operations_that_exist() -> None:
    known = {each.name for each in generate_client.OPERATIONS}
    for words, command in generate_subletctl.commands():
        assert set(command.uses) <= known, words  # type: ignore[attr-defined] # of sublet_client.cli.session.command


def test_the_table_and_the_man_page_are_those_of_these_commands() -> None:
    """Run `make client` after a change of the commands."""
    text = generate_subletctl.TABLE.read_text(encoding="utf-8")
    assert generate_subletctl.page(text) == text
    assert generate_subletctl.MAN_PAGE.read_text(encoding="utf-8") == generate_subletctl.man_page()
