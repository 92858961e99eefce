"""`--help` of every command at 80 columns, arguments that are numbers below 0, and one of a thing in
sentences.
"""

import json
import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import typer
from typer.testing import CliRunner

from sublet.audit import Actor
from sublet.cli.main import app
from sublet.organizations.organization import create_organization
from support.operator_registry import ANNA, BOB, small_registry

COLUMNS = 80


def commands() -> Iterator[tuple[str, Any]]:
    """Give the program, every noun and every verb with its words."""
    yield from at_or_below(typer.main.get_command(app), "")


def at_or_below(command: Any, words: str) -> Iterator[tuple[str, Any]]:
    yield words, command
    context = typer.Context(command)
    for name in command.list_commands(context) if hasattr(command, "list_commands") else ():
        yield from at_or_below(command.get_command(context, name), f"{words} {name}".strip())


def invoke(words: list[str], url: str = "") -> Any:
    return CliRunner().invoke(app, words, env={"COLUMNS": str(COLUMNS), "SUBLET_DATABASE_URL": url})


def on_one_line(text: str) -> str:
    return " ".join(text.split())


@pytest.mark.uncovered
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


def test_at_most_the_object_is_positional() -> None:
    """An argument has the name of the command's noun, or is in this table."""
    objects = {
        **dict.fromkeys(("backup", "restore", "token revoke-leaked"), "FILE"),
        **dict.fromkeys(("user add", "user invite"), "EMAIL"),
        **dict.fromkeys(("token", "credits", "payment"), "USER"),
        **dict.fromkeys(("token show", "token revoke", "credits refund", "audit", "mail", "package"), "ID"),
        **dict.fromkeys(("label block", "label unblock", "label matches"), "PATTERN"),
        **dict.fromkeys(("subdomain", "health", "ticket open", "package add"), "NAME"),
        **dict.fromkeys(("zone", "label list"), "DOMAIN"),
        "subdomain register": "FQDN",
        "mail preview": "TEMPLATE",
        "coupon": "CODE",
    }
    for words, command in commands():
        arguments = [each for each in command.params if each.param_type_name == "argument"]
        noun = words.partition(" ")[0]
        expected = objects.get(words, objects.get(noun, noun.upper()))
        assert [each.metavar for each in arguments] in ([], [expected]), words
        assert all(each.nargs == 1 for each in arguments), words


FORMER = [
    ("credits grant", [ANNA, "5", "--reason", "r"], [ANNA, "--credits", "5", "--reason", "r"]),
    ("credits adjust", [ANNA, "-5"], [ANNA, "--credits", "-5"]),
    (
        "label set",
        ["example.test", "gold", "--class", "premium"],
        ["gold", "--domain", "example.test", "--class", "premium"],
    ),
    ("label unset", ["example.test", "gold"], ["gold", "--domain", "example.test"]),
    ("domain grant", ["example.test", "Works"], ["example.test", "--organization", "Works"]),
    ("domain revoke", ["example.test", "Works"], ["example.test", "--organization", "Works"]),
    ("organization set-role", ["Works", BOB, "viewer"], ["Works", "--user", BOB, "--role", "viewer"]),
]


def test_the_former_forms_do_the_same_and_warn(tmp_path: Path) -> None:
    def results(folder: str, column: int) -> list[Any]:
        (tmp_path / folder).mkdir()
        registry = small_registry(tmp_path / folder)
        registry.write(create_organization, Actor(kind="user", user_id=1), "Works", created_max=1)
        return [invoke([*each[0].split(), *each[column], "--json"], registry.url) for each in FORMER]

    for (command, *_), former, new in zip(FORMER, results("former", 1), results("new", 2), strict=True):
        assert (former.exit_code, new.exit_code, new.stderr) == (0, 0, ""), new.output
        assert without_chance(former.stdout) == without_chance(new.stdout)
        assert f" {command}` will be removed. Give --" in former.stderr
        assert len(former.stderr.splitlines()) == 1


MIXED = [
    ["credits", "grant", ANNA, "5", "--credits", "5", "--reason", "r"],
    ["organization", "set-role", "Works", BOB, "--role", "viewer"],
    ["organization", "set-role", "Works", BOB],
    ["domain", "grant", "example.test", "Works", "Others"],
    ["label", "unset", "example.test"],
]


@pytest.mark.parametrize("words", MIXED, ids=" ".join)
def test_a_mixed_form_is_refused(words: list[str], tmp_path: Path) -> None:
    result = invoke(words, small_registry(tmp_path).url)
    assert (result.exit_code, result.stdout) == (2, "")


def without_chance(text: str) -> str:
    """Return an answer without its instants and the random end of a slug."""
    return re.sub(r"\d{4}-\d{2}-\d{2}T[\d:]+Z|(?<=works-)\w+", "", text)


NUMBERS = [
    (["credits", "adjust", ANNA, "--credits", "-5", "--reason", "too many"], 0, ""),
    (["credits", "adjust", "--reason", "too many", "--credits", "-5", ANNA], 0, ""),
    (["credits", "adjust", "--reason", "too many", ANNA, "-5"], 0, "Give --credits;"),
    (["credits", "adjust", ANNA, "--json", "-5"], 0, "Give --credits;"),
    (["credits", "grant", ANNA, "--credits", "-5", "--reason", "r"], 1, "credits"),
]


@pytest.mark.parametrize(("words", "exit_code", "told"), NUMBERS, ids=lambda each: str(each)[:40])
def test_negative_and_huge_numbers_are_arguments(
    words: list[str], exit_code: int, told: str, tmp_path: Path
) -> None:
    registry = small_registry(tmp_path)
    result = invoke(words, registry.url)
    assert (result.exit_code, told in result.stderr) == (exit_code, True), result.output
    assert "No such option" not in result.stderr
    if exit_code == 0:
        history = json.loads(invoke(["credits", "history", ANNA, "--json"], registry.url).stdout)
        assert history["payments"][0]["credits"] == -5


IDS = f"""
audit show
credits refund
mail retry
package retire
payment record {ANNA} --reference r --package
token revoke
token show
"""


def test_a_number_that_is_no_id_is_refused(tmp_path: Path) -> None:
    registry = small_registry(tmp_path)
    for words in IDS.strip().splitlines():
        for number in ("0", "-5", str(2**63)):
            result = invoke([*words.split(), number], registry.url)
            assert (result.exit_code, "Invalid value for" in result.stderr) == (2, True), result.output


@pytest.mark.parametrize(
    "words", [["credits", "adjust", ANNA, "--credits", "5", "--resaon", "r"], ["user", "list", "-x"]]
)
def test_an_unknown_option_is_named(words: list[str], tmp_path: Path) -> None:
    result = invoke(words, small_registry(tmp_path).url)
    assert result.exit_code == 2
    assert f"No such option: {words[-2] if '--resaon' in words else words[-1]}" in result.stderr


SENTENCES = [
    (["credits", "grant", ANNA, "--credits", "1", "--reason", "one"], "+1 credit."),
    (["credits", "grant", ANNA, "--credits", "2", "--reason", "two"], "+2 credits."),
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
