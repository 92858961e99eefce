"""The lists of users, organizations and payments: filters, order and limit."""

import json

import pytest
from typer.testing import CliRunner

from sublet.cli.main import app
from sublet.cli.output import Answer, Table, print_answer
from support.commands import answer, run
from support.operator_registry import ANNA, BOB, Registry, small_registry

ZOE = "zoë@xn--bcher-kva.example"


@pytest.fixture(scope="module")
def registry(tmp_path_factory: pytest.TempPathFactory) -> Registry:
    registry = small_registry(tmp_path_factory.mktemp("lists"))
    answer(
        registry.url,
        "user",
        "add",
        "under_score@example.org",
        "--name",
        "Ünder",
        "--organization",
        "100% Works",
    )
    for number, user in enumerate((ANNA, BOB, ANNA)):
        answer(
            registry.url, "payment", "record", user, "--reference", f"INV-{number}",
            "--credits", "5", "--amount", "1.50", "--currency", "EUR",
        )  # fmt: skip
    answer(registry.url, "credits", "grant", ANNA, "--credits", "1", "--reason", "no payment")
    answer(registry.url, "user", "add", "gone@example.org", "--name", "Gone")
    answer(registry.url, "user", "delete", "gone@example.org", "--yes")
    answer(registry.url, "user", "add", "zoë@bücher.example", "--name", "Zoe")
    return registry


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
    assert [each["email"] for each in answer(registry.url, "user", "list", *words)] == emails


def test_organization_list_searches_and_limits(registry: Registry) -> None:
    every = answer(registry.url, "organization", "list")
    assert [each["id"] for each in every] == sorted((each["id"] for each in every), reverse=True)
    assert answer(registry.url, "organization", "list", "--limit", "1") == every[:1]
    (found,) = answer(registry.url, "organization", "list", "--containing", "100%")
    assert (found["name"], found["members"]) == ("100% Works", 1)


@pytest.mark.parametrize("noun", ["user", "organization", "subdomain"])
def test_too_long_a_search_is_refused(registry: Registry, noun: str) -> None:
    told = run(registry.url, noun, "list", "--containing", 50_001 * "a", expect=2)
    assert "Give at most 254." in told


@pytest.mark.parametrize(
    "words",
    [
        ("health", "list", "--domain"),
        ("subdomain", "list", "--domain"),
        ("subdomain", "list", "--user"),
        ("payment", "list", "--user"),
    ],
)
def test_a_filter_by_an_unknown_or_empty_object_is_refused(
    registry: Registry, words: tuple[str, ...]
) -> None:
    for unknown in ("", "unknown.example"):
        assert "There is no " in run(registry.url, *words, unknown, expect=1)


def test_payment_list_has_only_payments(registry: Registry) -> None:
    payments = answer(registry.url, "payment", "list")
    assert [(each["reference"], each["email"]) for each in payments] == [
        ("payment:INV-2", ANNA),
        ("payment:INV-1", BOB),
        ("payment:INV-0", ANNA),
    ]
    assert (payments[0]["credits"], payments[0]["amount"], payments[0]["currency"]) == (5, "1.50", "EUR")
    assert answer(registry.url, "payment", "list", "--user", BOB) == payments[1:2]
    assert answer(registry.url, "payment", "list", "--limit", "1") == payments[:1]


def test_instants_have_years_of_four_digits(registry: Registry) -> None:
    run(registry.url, "coupon", "add", "OLD", "--percent", "5", "--valid-from", "0001-02-03T04:05:06Z")
    assert answer(registry.url, "coupon", "list")[0]["valid_from"] == "0001-02-03T04:05:06Z"
    assert " 0001-02-03 04:05 UTC " in run(registry.url, "coupon", "list")


def test_a_row_in_a_pipe_is_one_line_in_full(capsys: pytest.CaptureFixture[str]) -> None:
    rows = (("日本", "two\nlines", 1), ("a", 1200 * "b", None))
    print_answer(Answer(None, table=Table(("name", "text", "number"), rows)), json_only=False)
    heading, rule, first, second = capsys.readouterr().out.splitlines()
    assert (heading.split(), set(rule)) == (["name", "text", "number"], {"─", " "})
    assert (first.split(), second.split()) == (["日本", "two", "lines", "1"], ["a", 1200 * "b", "-"])
    assert first.index("two") + 2 == second.index("b")  # each of the two letters is two columns wide


def test_label_matches_takes_the_pattern_as_an_argument(registry: Registry) -> None:
    found = answer(registry.url, "label", "matches", "*alph*")
    assert [each["fqdn"] for each in found] == ["alpha.example.test"]
    assert answer(registry.url, "label", "matches") == []
    environment = {"SUBLET_DATABASE_URL": registry.url}
    old = CliRunner().invoke(app, ["label", "matches", "--pattern", "*alph*", "--json"], env=environment)
    assert (old.exit_code, json.loads(old.stdout)) == (0, found)
    assert "sublet label matches PATTERN" in old.stderr
    both = CliRunner().invoke(app, ["label", "matches", "a", "--pattern", "a"], env=environment)
    assert both.exit_code == 1
    assert "Give it once" in both.stderr
    assert "--pattern" not in CliRunner().invoke(app, ["label", "matches", "--help"]).stdout
