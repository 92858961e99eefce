"""The console as scripts see it: stdout, stderr and exit codes of the real command."""

import json
import os
import re
import subprocess
import sys
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pytest
from typer.testing import CliRunner

from sublet import audit
from sublet.accounts.authenticate import authenticate
from sublet.accounts.store import update_user
from sublet.audit import Actor
from sublet.cli.main import app
from sublet.config import REMOVED_SETTINGS
from sublet.db import Tx
from sublet.health import store as health_store
from sublet.schema_revision import needed_revision
from sublet.secret import Secret
from sublet.structs import replace
from sublet.subdomains.delete import delete
from support import databases
from support.operator_registry import ANNA, Registry, small_registry
from support.running_service import running_service

pytestmark = pytest.mark.slow


def run(url: str, *words: str, **environment: str) -> subprocess.CompletedProcess[str]:
    """Run a command in this process, like `sublet` without settings from the environment."""
    unset = {name: None for name in os.environ if name.startswith("SUBLET_")}
    settings = {"SUBLET_DATABASE_URL": url, "SUBLET_DATABASE_MAY_LOSE_WRITES": "yes", **environment}
    done = CliRunner().invoke(app, words, env={**unset, **settings})
    return subprocess.CompletedProcess(words, done.exit_code, done.stdout, done.stderr)


def answer(url: str, *words: str) -> Any:
    done = run(url, *words, "--json")
    assert (done.returncode, done.stderr) == (0, "")
    return json.loads(done.stdout)


def test_a_new_registry_gets_a_user_a_token_a_domain_and_credits(tmp_path: Path) -> None:
    url = databases.registry_address(tmp_path)
    missing = run(url, "user", "list")
    assert (missing.returncode, missing.stdout) == (3, "")
    assert "Run `sublet init`" in missing.stderr
    assert not (tmp_path / "registry.db").exists()
    assert answer(url, "init") == {"before": None, "after": needed_revision(), "other_spellings": []}
    assert answer(url, "init")["before"] == needed_revision()
    user = answer(url, "user", "add", ANNA, "--name", "Anna")
    assert (user["id"], user["email"], user["organization"]["name"]) == (1, ANNA, ANNA)
    issued = answer(url, "token", "issue", ANNA, "--name", "demo", "--scope", "account:read")
    registry = Registry(url)
    registrant = registry.use(lambda database: authenticate(database, Secret(issued["token"])))
    assert registrant.restrictions.scopes == ("account:read",)
    domain = answer(url, "domain", "add", "example.test", "--public-name", "Example", "--hidden")
    assert (domain["hidden"], domain["restricted"], [each["mode"] for each in domain["modes"]]) == (
        True,
        False,
        ["free"],
    )
    offer = answer(
        url,
        *("domain", "offer", "example.test", "--mode", "plus", "--price", "10"),
        *("--renewal-price", "10", "--period-days", "365"),
    )
    assert offer["price_credits"] == 10
    assert (
        answer(url, "credits", "grant", ANNA, "--credits", "100", "--reason", "hello")["balance_after"] == 100
    )
    assert answer(url, "coupon", "add", "half", "--percent", "50", "--max-uses", "3")["code"] == "HALF"
    told = answer(url, "doctor")
    assert (told["healthy"], told["violations"]) == (True, [])
    assert {each["actor_kind"] for each in registry.events()} == {"operator"}


def test_a_refusal_is_a_sentence_and_exit_code_1(tmp_path: Path) -> None:
    registry = small_registry(tmp_path)
    before = registry.rows()
    plain = run(registry.url, "credits", "adjust", ANNA, "--credits", "-91")
    assert (plain.returncode, plain.stdout) == (1, "")
    assert re.fullmatch(r"sublet: The balance .* can't be deducted\. Deduct less\.\n", plain.stderr)
    told = run(registry.url, "user", "add", "x", "--name", " ", "--json")
    refused = json.loads(told.stdout)
    assert (told.returncode, refused["ok"], refused["error"]) == (1, False, "validation_failed")
    assert [each["field"] for each in refused["errors"]] == ["email", "name"]
    assert "email" in told.stderr
    assert "name" in told.stderr
    assert registry.rows() == before


@pytest.mark.parametrize(
    "words",
    [
        ["user", "show", "\udcff@example.org"],
        ["credits", "grant", ANNA, "--credits", "5"],
        ["user", "add"],
        ["nonsense"],
        ["credits", "grant", ANNA, "--credits", "five", "--reason", "r"],
        ["domain", "offer", "example.test", "--mode", "plus", "--withdraw", "--price", "3"],
    ],
)
def test_a_wrong_command_line_is_exit_code_2(words: list[str], tmp_path: Path) -> None:
    registry = small_registry(tmp_path)
    before = registry.rows()
    done = run(registry.url, *words)
    assert (done.returncode, done.stdout) == (2, "")
    assert done.stderr
    assert registry.rows() == before


def test_the_doctor_shows_the_first_violations_of_a_kind_and_all_with_json(tmp_path: Path) -> None:
    registry = small_registry(tmp_path)

    def tell_of_missing_users(tx: Tx) -> None:
        for number in range(100, 125):
            audit.record(tx, Actor("operator"), "user.add", number)

    registry.write(tell_of_missing_users)
    shown = run(registry.url, "doctor")
    assert shown.returncode == 1
    of_kind = [line for line in shown.stdout.splitlines() if line.startswith("rows_stay")]
    assert len(of_kind) == 21
    assert of_kind[-1].split(None, 1)[1].strip() == "… and 5 more"
    told = json.loads(run(registry.url, "doctor", "--json").stdout)
    assert [each["invariant"] for each in told["violations"]].count("rows_stay") == 25


def test_a_clock_that_was_ahead_does_not_fail_the_doctor(tmp_path: Path) -> None:
    registry = small_registry(tmp_path)
    at = datetime(2099, 9, 23, 10, 57, 31, tzinfo=UTC)
    registry.write(lambda tx: audit.record(replace(tx, now=at), Actor("operator"), "user.edit", 1))
    shown = run(registry.url, "doctor")
    assert (shown.returncode, "1 event with future times, up to 23 September 2099" in shown.stdout) == (
        0,
        True,
    )


@pytest.mark.sqlite_only
@pytest.mark.parametrize(
    "change",
    [
        "UPDATE platform_domains SET serial = 'x'",
        "UPDATE platform_domains SET apex_nameservers = '5'",
        "UPDATE platform_domains SET domain = 'a..b'",
    ],
)
def test_the_doctor_reports_a_row_that_its_questions_to_name_servers_can_not_read(
    change: str, tmp_path: Path
) -> None:
    registry = small_registry(tmp_path)
    registry.write(lambda tx: tx.connection.exec_driver_sql(change))
    told = json.loads(run(registry.url, "doctor", "--json").stdout)
    assert ("rows_are_readable", "notices") in {
        (each["invariant"], each["object_id"]) for each in told["violations"]
    }
    registry.write(lambda tx: tx.connection.exec_driver_sql("DROP TABLE mails"))
    done = run(registry.url, "doctor")
    assert (done.returncode, "lacks the tables mails" in done.stderr) == (3, True)


def test_the_doctor_asks_the_built_in_name_server(tmp_path: Path) -> None:
    url = databases.registry_address(tmp_path)
    with running_service(url) as service:
        service.add_domain()
        service.environment["SUBLET_DNS_LISTEN"] = ":".join(map(str, service.dns))
        assert service.operator("doctor") == {"healthy": True, "violations": [], "notices": []}
    (notice,) = service.operator("doctor")["notices"]
    assert (notice["notice"], notice["object_id"]) == ("zone_not_served", "example.test")
    assert notice["message"].startswith(f"{service.dns[0]}, port {service.dns[1]}, can't be reached")


def test_a_notice_of_the_doctor_is_not_a_failure(tmp_path: Path) -> None:
    registry = small_registry(tmp_path)
    bobs = registry.register(2, "gamma.example.test", "free", "ns1.alpha.example.test")
    registry.write(delete, Actor(kind="user", user_id=1), "alpha.example.test")
    answer(registry.url, "user", "edit", "2", "--free-quota", "0")
    shown = run(registry.url, "doctor")
    assert re.search(r"^\d notices? without a broken invariant:$", shown.stdout, re.MULTILINE)
    assert "nameserver_in_trash" in shown.stdout
    assert "ns1.alpha.example.test" in shown.stdout
    told = json.loads(run(registry.url, "doctor", "--json").stdout)
    assert [
        (each["notice"], each["object_type"], each["object_id"])
        for each in told["notices"]
        if each["notice"] != "zone_not_served"
    ] == [("nameserver_in_trash", "subdomain", bobs), ("free_quota", "user", 2)]
    waits = {
        "nothing_waits",
        "sweep_is_in_time",
    }  # no service runs here, and the registry's clock stands in the past
    assert {each["invariant"] for each in told["violations"]} <= waits
    assert shown.returncode == (1 if told["violations"] else 0)


@pytest.mark.sqlite_only
def test_the_state_of_the_checks_is_shown(tmp_path: Path) -> None:
    registry = small_registry(tmp_path)
    shown = run(registry.url, "health", "status").stdout
    assert re.findall(r"^(checks|consequences):? +(.*)$", shown, re.MULTILINE) == [
        ("checks", "off; the setting health_checks turns them on"),
        ("consequences", "on"),
    ]
    at = datetime(2026, 1, 1, tzinfo=UTC)
    reason = "The resolver doesn't answer."
    registry.write(
        lambda tx: health_store.update_brake(tx, impaired_since=at, impaired_reason=reason, stopped_at=at)
    )
    shown = run(registry.url, "health", "status").stdout
    assert "impaired; every checked name is unknown" in shown
    assert "stopped; `sublet health resume` resumes them" in shown


def test_a_file_that_is_not_a_database_exits_with_3_and_one_line(tmp_path: Path) -> None:
    (tmp_path / "no.db").write_text("This is not a database, but a text that is long enough." * 20)
    done = run(f"sqlite:///{tmp_path}/no.db", "user", "list")
    assert (done.returncode, done.stdout) == (3, "")
    assert done.stderr.count("\n") == 1
    assert run(f"sqlite:///{tmp_path}/no.db", "init").returncode == 3
    (tmp_path / "empty.db").touch()
    empty = run(f"sqlite:///{tmp_path}/empty.db", "user", "list")
    assert empty.returncode == 3
    assert "never initialised" in empty.stderr


TOO_LONG = "x" * 300
"""The name of a file that the system refuses to look for, as in a folder of another user."""


@pytest.mark.parametrize(
    "words",
    [
        ["backup", TOO_LONG],
        ["restore", TOO_LONG],
        [
            "zone",
            "config",
            "example.test",
            "--server",
            "knot",
            *("--listen", "192.0.2.1", "--output", TOO_LONG),
        ],
        ["copy", "--from", f"sqlite:///{TOO_LONG}", "--to", f"sqlite:///{TOO_LONG}.db"],
    ],
    ids=lambda words: words[0],
)
@pytest.mark.sqlite_only
def test_a_path_that_can_not_be_used_exits_with_3_and_one_line(words: list[str], tmp_path: Path) -> None:
    registry = small_registry(tmp_path)
    for url in (registry.url, f"sqlite:///{tmp_path}/{TOO_LONG}"):
        done = run(url, *words)
        assert (done.returncode, done.stdout, done.stderr.count("\n")) == (3, "", 1)
        assert "File name too long" in done.stderr


@pytest.mark.sqlite_only
@pytest.mark.parametrize(
    ("words", "cause"),
    [
        (["user", "list"], "The cause: unable to open database file."),
        (["serve"], "unable to open database file. Check `database_url` and the permissions."),
    ],
)
def test_the_cause_of_an_unusable_database_is_shown(words: list[str], cause: str, tmp_path: Path) -> None:
    done = run(f"sqlite:///{tmp_path}", *words)
    assert done.returncode == 3
    assert f"{cause} Run the command as the user of the service" in done.stderr


def test_primaries_are_among_the_settings(tmp_path: Path) -> None:
    file = tmp_path / "sublet.toml"
    file.write_text('[primaries.main]\naddress = "192.0.2.53"\nkey_name = "sublet"\n', encoding="utf-8")
    url = databases.registry_address(tmp_path)
    listed = json.loads(run(url, "settings", "--json", SUBLET_CONFIG=str(file)).stdout)
    found = {each["name"]: each["value"] for each in listed}
    assert found["primaries"][0]["address"] == "192.0.2.53"
    table = run(url, "settings", SUBLET_CONFIG=str(file)).stdout
    assert re.search(r"^primaries +main +- +- ", table, re.MULTILINE), table


def start(url: str, *words: str, encoding: str, **streams: Any) -> subprocess.CompletedProcess[bytes]:
    """Run a command in a process of its own, with an encoding of its stdin and stdout."""
    return subprocess.run(
        [sys.executable, "-m", "sublet.cli.main", *words],
        env={"SUBLET_DATABASE_URL": url, "PYTHONIOENCODING": encoding},
        stderr=subprocess.PIPE,
        check=False,
        **streams,
    )


@pytest.mark.sqlite_only
def test_what_a_terminal_can_not_show_is_escaped(tmp_path: Path) -> None:
    registry = small_registry(tmp_path)
    registry.write(lambda tx: update_user(tx, 1, name="\u0141ucja"))
    done = start(registry.url, "user", "list", encoding="latin-1", stdout=subprocess.PIPE)
    assert (done.returncode, rb"\u0141ucja" in done.stdout) == (0, True), done


@pytest.mark.sqlite_only
def test_bytes_that_are_not_utf_8_are_refused(tmp_path: Path) -> None:
    words = ("ticket", "open", "alpha.example.test", "--subject", "s")
    done = start(small_registry(tmp_path).url, *words, encoding="utf-8", input=b"\xff")
    assert (done.returncode, done.stderr[:16]) == (1, b"sublet: message:"), done


@pytest.mark.sqlite_only
def test_an_output_that_can_not_be_written_is_reported(tmp_path: Path) -> None:
    with Path("/dev/full").open("w") as full:
        done = start(small_registry(tmp_path).url, "user", "list", encoding="utf-8", stdout=full)
    told = b"sublet: The command is done, but its output can't be written: No space left on device.\n"
    assert (done.returncode, done.stderr) == (3, told)


@pytest.mark.parametrize(
    ("words", "streams", "told"),
    [
        (
            ("audit", "--help"),
            ("stdout",),
            b"sublet: The output can't be written: No space left on device.\n",
        ),
        (("--version",), ("stdout",), b"sublet: The output can't be written: No space left on device.\n"),
        (("audit",), ("stderr",), None),
        (("settings",), ("stdout", "stderr"), None),
    ],
)
def test_a_stream_on_a_full_disk_gives_exit_code_3(
    words: tuple[str, ...], streams: tuple[str, ...], told: bytes | None
) -> None:
    with Path("/dev/full").open("w") as full:
        command = [sys.executable, "-m", "sublet.cli.main", *words]
        chosen: dict[str, Any] = {"stderr": subprocess.PIPE} | dict.fromkeys(streams, full)
        done = subprocess.run(command, env={}, check=False, **chosen)
    assert (done.returncode, done.stderr) == (3, told)


@pytest.mark.sqlite_only
def test_a_closed_output_is_no_fault(tmp_path: Path) -> None:
    def close() -> None:
        os.close(1)

    done = start(small_registry(tmp_path).url, "user", "list", encoding="utf-8", preexec_fn=close)
    assert (done.returncode, done.stderr) == (0, b"")


def test_control_characters_of_users_are_escaped(tmp_path: Path) -> None:
    registry = small_registry(tmp_path)
    answer(registry.url, "label", "set", "gold", "--domain", "example.test", "--class", "reserved")
    name = "\x1b[31mred \x9b[bold]markup[/bold] \u0dca\u200d\u0dbb"  # with the joiner of Sinhala
    registry.write(lambda tx: update_user(tx, 1, name=name))
    for words in (["user", "list"], ["user", "show", ANNA]):
        shown = run(registry.url, *words).stdout
        assert "\x1b" not in shown
        assert "<U+001B>[31mred <U+009B>[bold]markup[/bold] \u0dca\u200d\u0dbb" in shown
    shown = run(registry.url, "user", "list", "--json").stdout
    assert r"\u001b[31mred \u009b[bold]" in shown
    assert name in {each["name"] for each in json.loads(shown)}


def test_no_line_of_a_message_looks_like_the_head_of_another_one(tmp_path: Path) -> None:
    url = small_registry(tmp_path).url
    message = "Hi.\n\n── 2026-03-01 12:00 UTC, Olga (staff)\nDone."
    answer(url, "ticket", "open", "alpha.example.test", "--subject", "s", "--message", message)
    lines = run(url, "ticket", "show", "1").stdout.splitlines()
    assert sum(each.startswith("──") for each in lines) == 1
    assert lines[-4:] == ["  Hi.", "", "  ── 2026-03-01 12:00 UTC, Olga (staff)", "  Done."]


@pytest.mark.parametrize("name", REMOVED_SETTINGS)
def test_a_removed_setting_causes_a_warning(name: str, tmp_path: Path) -> None:
    done = run(
        databases.registry_address(tmp_path), "settings", "--json", **{f"SUBLET_{name.upper()}": "yes"}
    )
    assert (done.returncode, done.stderr.count("\n")) == (0, 1)
    assert done.stderr.startswith(f"sublet: warning: {name}: this setting was removed")
    assert name not in {each["name"] for each in json.loads(done.stdout)}
