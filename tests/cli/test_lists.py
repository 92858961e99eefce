"""The lists of users, organizations and payments: filters, order and limit."""

import json
from typing import Any

import pytest
from typer.testing import CliRunner

from sublet.cli.main import app
from support.operator_registry import ANNA, BOB, Registry, small_registry

ZOE = "zoë@xn--bcher-kva.example"


@pytest.fixture(scope="module")
def registry(tmp_path_factory: pytest.TempPathFactory) -> Registry:
    registry = small_registry(tmp_path_factory.mktemp("lists"))
    run(registry, "user", "add", "under_score@example.org", "--name", "Ünder", "--organization", "100% Works")
    for number, user in enumerate((ANNA, BOB, ANNA)):
        run(
            registry, "payment", "record", user, "--reference", f"INV-{number}",
            "--credits", "5", "--amount", "1.50", "--currency", "EUR",
        )  # fmt: skip
    run(registry, "credits", "grant", ANNA, "--credits", "1", "--reason", "no payment")
    run(registry, "user", "add", "gone@example.org", "--name", "Gone")
    run(registry, "user", "delete", "gone@example.org", "--yes")
    run(registry, "user", "add", "zoë@bücher.example", "--name", "Zoe")
    return registry


def run(registry: Registry, *words: str) -> Any:
    done = CliRunner().invoke(app, [*words, "--json"], env={"SUBLET_DATABASE_URL": registry.url})
    assert done.exit_code == 0, (words, done.output, done.exception)
    return json.loads(done.stdout)


@pytest.mark.parametrize(
    ("words", "emails"),
    [
        ((), [ZOE, "under_score@example.org", BOB, ANNA]),
        (("--limit", "2"), [ZOE, "under_score@example.org"]),
        (("--containing", "Bücher"), [ZOE]),
        (("--containing", "BÜCHER\u3002example."), [ZOE]),
        (("--containing", " ZOE\u0308@bücher.example."), [ZOE]),
        (("--containing", "@xn--b"), [ZOE]),
        (("--containing", "ANNA@"), [ANNA]),
        (("--containing", "100% w"), ["under_score@example.org"]),
        (("--containing", "nder", "--limit", "1"), ["under_score@example.org"]),
        (("--containing", "r_s"), ["under_score@example.org"]),
        (("--containing", "a%a"), []),
        (("--containing", "gone"), []),
    ],
)
def test_user_list_searches_and_limits(registry: Registry, words: tuple[str, ...], emails: list[str]) -> None:
    assert [each["email"] for each in run(registry, "user", "list", *words)] == emails


def test_organization_list_searches_and_limits(registry: Registry) -> None:
    every = run(registry, "organization", "list")
    assert [each["id"] for each in every] == sorted((each["id"] for each in every), reverse=True)
    assert run(registry, "organization", "list", "--limit", "1") == every[:1]
    (found,) = run(registry, "organization", "list", "--containing", "100%")
    assert (found["name"], found["members"]) == ("100% Works", 1)


def test_payment_list_has_only_payments(registry: Registry) -> None:
    payments = run(registry, "payment", "list")
    assert [(each["reference"], each["email"]) for each in payments] == [
        ("payment:INV-2", ANNA),
        ("payment:INV-1", BOB),
        ("payment:INV-0", ANNA),
    ]
    assert (payments[0]["credits"], payments[0]["amount"], payments[0]["currency"]) == (5, "1.50", "EUR")
    assert run(registry, "payment", "list", "--user", BOB) == payments[1:2]
    assert run(registry, "payment", "list", "--limit", "1") == payments[:1]


def test_label_matches_takes_the_pattern_as_an_argument(registry: Registry) -> None:
    found = run(registry, "label", "matches", "*alph*")
    assert [each["fqdn"] for each in found] == ["alpha.example.test"]
    assert run(registry, "label", "matches") == []
    environment = {"SUBLET_DATABASE_URL": registry.url}
    old = CliRunner().invoke(app, ["label", "matches", "--pattern", "*alph*", "--json"], env=environment)
    assert (old.exit_code, json.loads(old.stdout)) == (0, found)
    assert "sublet label matches PATTERN" in old.stderr
    both = CliRunner().invoke(app, ["label", "matches", "a", "--pattern", "a"], env=environment)
    assert both.exit_code == 1
    assert "Give it once" in both.stderr
    assert "--pattern" not in CliRunner().invoke(app, ["label", "matches", "--help"]).stdout
