"""`--help` of every command at 80 columns, arguments that are numbers below 0, and one of a thing in sentences."""

import json
import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import typer
from typer.testing import CliRunner

from sublet.cli.main import app
from support.operator_registry import ANNA, BOB, small_registry

COLUMNS = 80


def commands() -> Iterator[tuple[str, Any]]:
    """Give the program, every noun and every verb with its words."""
    root: Any = typer.main.get_command(app)
    context = typer.Context(root)
    yield "", root
    for noun in root.list_commands(context):
        command: Any = root.get_command(context, noun)
        yield noun, command
        for verb in command.list_commands(context) if hasattr(command, "list_commands") else ():
            yield f"{noun} {verb}", command.get_command(context, verb)


def invoke(words: list[str], url: str = "") -> Any:
    return CliRunner().invoke(app, words, env={"COLUMNS": str(COLUMNS), "SUBLET_DATABASE_URL": url})


def on_one_line(text: str) -> str:
    return " ".join(text.split())


@pytest.mark.parametrize(("words", "command"), list(commands()), ids=lambda each: str(each) or "sublet")
def test_help_fits_80_columns_and_explains_every_option(words: str, command: Any) -> None:
    result = invoke([*words.split(), "--help"])
    assert result.exit_code == 0
    lines = result.stdout.splitlines()
    assert max(map(len, lines)) <= COLUMNS
    assert not [line for line in lines if "…" in line or "..." in line.replace("[ARGS]...", "")]
    text = on_one_line(result.stdout)
    assert on_one_line(command.help) in text
    shown_parameters = [each for each in command.params if not getattr(each, "hidden", False)]
    for parameter in shown_parameters:  # former options are hidden
        assert parameter.help, f"`sublet {words}` does not explain {parameter.name}"
        names = [parameter.metavar] if parameter.param_type_name == "argument" else parameter.opts
        for shown in (*names, *parameter.secondary_opts, on_one_line(parameter.help)):
            assert shown in text
    if hasattr(command, "list_commands"):
        for name in command.list_commands(typer.Context(command)):
            verb = command.get_command(typer.Context(command), name)
            assert f"{name} {on_one_line(verb.help)}" in text


NUMBERS = [
    (["credits", "adjust", ANNA, "-5", "--reason", "too many"], 0, ""),
    (["credits", "adjust", "--reason", "too many", ANNA, "-5"], 0, ""),
    (["credits", "adjust", ANNA, "--json", "-5"], 0, ""),
    (["credits", "grant", ANNA, "-5", "--reason", "r"], 1, "credits"),
    (["credits", "refund", "-5"], 1, "-5"),
    (["token", "revoke", "-5"], 1, "-5"),
    (["package", "retire", "-5"], 1, "-5"),
]


@pytest.mark.parametrize(("words", "exit_code", "told"), NUMBERS, ids=lambda each: str(each)[:40])
def test_a_negative_number_is_an_argument(
    words: list[str], exit_code: int, told: str, tmp_path: Path
) -> None:
    registry = small_registry(tmp_path)
    result = invoke(words, registry.url)
    assert (result.exit_code, told in result.stderr) == (exit_code, True), result.output
    assert "No such option" not in result.stderr
    if exit_code == 0:
        history = json.loads(invoke(["credits", "history", ANNA, "--json"], registry.url).stdout)
        assert history["payments"][0]["credits"] == -5


@pytest.mark.parametrize("words", [["credits", "adjust", ANNA, "5", "--resaon", "r"], ["user", "list", "-x"]])
def test_an_unknown_option_is_named(words: list[str], tmp_path: Path) -> None:
    result = invoke(words, small_registry(tmp_path).url)
    assert result.exit_code == 2
    assert f"No such option: {words[-2] if '--resaon' in words else words[-1]}" in result.stderr


SENTENCES = [
    (["credits", "grant", ANNA, "1", "--reason", "one"], "+1 credit."),
    (["credits", "grant", ANNA, "2", "--reason", "two"], "+2 credits."),
    (
        ["domain", "offer", "example.test", "--mode", "plus", "--price", "1", "--period-days", "1"],
        "1 credit, ",
    ),
    (["package", "add", "Mini", "--credits", "1", "--price", "1.00", "--currency", "EUR"], ": 1 credit for"),
    (["user", "suspend", ANNA, "--with-names"], "with 2 names."),
    (["user", "suspend", BOB, "--with-names"], "with 1 name."),
]


@pytest.mark.parametrize(("words", "sentence"), SENTENCES, ids=lambda each: str(each)[:40])
def test_messages_use_singular_and_plural(words: list[str], sentence: str, tmp_path: Path) -> None:
    registry = small_registry(tmp_path)
    registry.register(2, "gamma.example.test", "free")
    result = invoke(words, registry.url)
    assert (result.exit_code, sentence in result.stdout) == (0, True), result.output
    assert not re.search(r"\b1 (names|credits|days)\b", result.stdout)
