"""`subletctl` against the real service: names, payments, many names, tokens, tickets, output, exit codes, and
what it stores.
"""

import json
import os
import pty
import re
import signal
import socket
import stat
import subprocess
import sys
import threading
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import click
import pytest
from click.testing import CliRunner
from msgspec.structs import replace

from sublet.health.model import STATES as HEALTH_STATES
from sublet.subdomains.model import STATUSES
from sublet.subdomains.transfers.model import DIRECTIONS
from sublet.subdomains.transfers.model import STATES as TRANSFER_STATES
from sublet.tickets.model import TICKET_STATUSES
from sublet_client import _core
from sublet_client._errors import BY_CODE
from sublet_client._sync import DevicesMethods, SubdomainsMethods, TokensMethods
from sublet_client.cli import login, profiles
from sublet_client.cli import main as cli_main
from sublet_client.cli.advice import CASES, NEXT, SENTENCES
from sublet_client.cli.main import COMMANDS, root
from sublet_client.client import Subdomains
from sublet_client.exceptions import NotReached
from sublet_client.models import Deleted, DeviceAnswer, SecretAnswer
from support.browsers import signed_in
from support.child_keys import ChildKey
from support.repetitions import share
from support.running_service import Registrant, RunningService
from support.subletctl import PROGRAM, Run, as_json, subletctl

DS = "2371 13 2 1f987cc6583e92df0890718c42a1d3b1a1f4b4a6b2d8a1dd09a4c1d7f4d3e5a6"
NS = ("-n", "ns1.provider.example", "-n", "ns2.provider.example")


@pytest.fixture
def who(service: RunningService) -> Registrant:
    service.add_domain()
    return service.add_user(credit_count=25, free_quota="20")


@pytest.fixture
def bob(service: RunningService) -> Registrant:
    return service.add_user("bob@example.org")


@pytest.fixture
def eve(service: RunningService) -> Registrant:
    return service.add_user("eve@example.org", credit_count=25, free_quota="2")


@pytest.fixture
def run(
    service: RunningService, who: Registrant, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> Iterator[Run]:
    """Run a command without a terminal, for the user `who`, and check its exit code."""
    monkeypatch.setenv("XDG_CONFIG_HOME", str(tmp_path))
    yield subletctl(service, who, monkeypatch)
    assert service.doctor() == []


def test_a_name_from_registration_to_the_trash(run: Run, service: RunningService) -> None:
    found = as_json(run("names", "availability", "blog.example.test", "--json", "fqdn,available"))
    assert found == [{"fqdn": "blog.example.test", "available": True}]
    glue = ("-n", "ns1.blog.example.test", "--glue", "ns1.blog.example.test=8.8.4.4")
    done = run("register", "blog.example.test", *NS, *glue, "--ds", DS, "--wait", "--json", "all")
    assert (as_json(done)["status"], as_json(done)["charged_credits"]) == ("active", 0)
    assert service.delegation("blog.example.test") >= {"ns1.provider.example"}
    assert "blog.example.test" in run("names", "list").stdout
    assert "EXPIRES" in run("names", "search", "blog").stdout
    assert run("names", "list", "-q", "--renewable").stdout == ""
    run("set", "blog.example.test", *NS, "--no-glue", "--wait")
    assert as_json(run("names", "show", "blog.example.test", "--json", "glue,nameservers")) == {
        "glue": [],
        "nameservers": ["ns1.provider.example", "ns2.provider.example"],
    }
    other = DS.replace("2371", "2372")
    run("ds", "add", "blog.example.test", other)
    assert run("ds", "list", "blog.example.test", "-q").stdout.split() == ["2371", "2372"]
    assert "until" in run("ds", "remove", "blog.example.test", "2371", "--wait").stderr
    for unquoted in (("ds", "add", "blog.example.test"), ("register", "two.example.test", "--ds")):
        assert "one pair of quotes" in run(*unquoted, *other.split(), exit_code=2).stderr
    run("ds", "remove", "blog.example.test", "2371", exit_code=1)
    assert as_json(run("ds", "auto", "blog.example.test", "--json", "policy")) == {"policy": "off"}
    run("ds", "set", "blog.example.test")
    assert "subdomain.register" in run("activity", "--action", "subdomain.register").stdout
    for each in ("delegation", "timeline"):
        run("names", each, "blog.example.test")
    assert as_json(
        run("auto-renew", "blog.example.test", "on", "--max-credits", "0", "--json", "enabled")
    ) == {"enabled": True}
    shown = run("names", "show", "blog.example.test").stdout
    assert re.search(r"^mode +free$", shown, re.MULTILINE)
    assert re.search(r"^auto renew +on, for at most 0 credits$", shown, re.MULTILINE)
    run("auto-renew", "blog.example.test", "off")
    assert re.search(r"^auto renew +off$", run("names", "show", "blog.example.test").stdout, re.MULTILINE)
    assert " MODE " in run("names", "list").stdout
    assert as_json(run("names", "list", "--json", "mode")) == [{"mode": "free"}]
    off = "This registry doesn't check delegations"
    assert off in run("health", "blog.example.test").stderr
    assert off in run("health", "blog.example.test", "--now", exit_code=1).stderr
    assert off in run("health", "blog.example.test", "--plan", *NS, exit_code=1).stderr
    early = run("renew", "blog.example.test", exit_code=1).stderr
    assert re.search(r"blog.example.test can be renewed from \d{4}-\d\d-\d\d \d\d:\d\d UTC on", early)
    run("names", "retry", "blog.example.test", exit_code=1)
    assert "blog.example.test is active" in run("restore", "blog.example.test", exit_code=1).stderr
    assert "subletctl ns set blog.example.test" in run("register", "blog.example.test", exit_code=1).stderr
    run("trash", "blog.example.test", exit_code=1)
    run("trash", "blog.example.test", "--yes")
    assert "names list" in run("set", "other.example.test", *NS, exit_code=1).stderr
    file = "names: {blog.example.test: {}}"
    for words in (("set", "blog.example.test", *NS), ("register", "blog.example.test"), ("apply", "-f", "-")):
        assert "subletctl restore blog.example.test" in run(*words, text=file, exit_code=1).stderr
    done = run("names", "availability", "x_y", "blog.example.test", "new.example.test", exit_code=1)
    assert "in your trash: see subletctl restore" in done.stdout
    run("register", "mine.example.test")
    assert "yours: see subletctl ns set" in run("names", "availability", "mine.example.test").stdout
    assert re.search("new.example.test +yes +- +free", done.stdout)
    assert "x_y" in done.stderr
    wrong = run("register", "a.example.test", "-n", "ns1.a.example.test", "-n", "x..y", exit_code=1).stderr
    assert (wrong.count("nameservers[1]"), wrong.count("register --help")) == (1, 1)
    assert "domains list" in run("register", "blog.example.org", exit_code=1).stderr
    run("restore", "blog.example.test")
    assert "blog.example.test  active" in run("watch", "--settled").stdout


def test_nothing_is_paid_without_consent(run: Run) -> None:
    plus = ("register", "shop.example.test", "--mode", "plus")
    assert "--max-credits 10" in run(*plus, exit_code=5).stderr
    assert "--max-credits 10" in run(*plus, "--yes", exit_code=5).stderr
    assert "more than --max-credits 9" in run(*plus, "--yes", "--max-credits", "9", exit_code=5).stderr
    assert as_json(run("credits", "balance", "--json", "credit_balance")) == {"credit_balance": 25}
    assert as_json(run(*plus, "--yes", "--max-credits", "12", "--json", "all"))["charged_credits"] == 10
    assert run("credits", "history", "--template", "{credits}").stdout.split()[0] == "-10"
    run("register", "two.example.test", "--mode", "plus", "--yes", "--max-credits", "10")
    poor = run(
        "register", "three.example.test", "--mode", "plus", "--yes", "--max-credits", "10", exit_code=5
    )
    assert "5 more than you have" in poor.stderr
    assert "credits packages" in poor.stderr
    run("credits", "packages")
    assert as_json(run("account", "quota", "--json", "used")) == {"used": 0}
    for words in (("domains",), ("domains", "list"), ("domains", "--profile", "default")):
        assert "plus: 10 credits for 365 days, renewal 10" in run(*words).stdout
    assert "Commands:" in run("domains", "--help").stdout
    assert "CHARGED (CREDITS)" in run("names", "timeline", "two.example.test").stdout


def test_apply_makes_many_names_equal_a_file(run: Run, tmp_path: Path, service: RunningService) -> None:
    run("register", "one.example.test", *NS)
    file = tmp_path / "names.yaml"
    file.write_text(
        f"""\
names:
  one.example.test:
    nameservers: [ns3.provider.example., NS2.Provider.example]
    ds_records: ["{DS.upper()}"]
  two.example.test:
    nameservers: [ns1.two.example.test, ns1.provider.example]
    glue:
      ns1.two.example.test: [8.8.4.4, 8.8.8.8, "2001:4860:4860:0:0:0:0:8844"]
  paid.example.test:
    mode: plus
""",
        encoding="utf-8",
    )
    plan = run("apply", "-f", str(file), "--plan").stdout
    assert "2 to register for 10 credits (you have 25), 1 to change" in plan
    assert "nameservers: ns1.provider.example, ns2.provider.example -> ns3.provider.example" in plan
    run("apply", "-f", str(file), exit_code=5)
    run("apply", "-f", str(file), "--yes", exit_code=5)
    assert as_json(run("credits", "balance", "--json", "credit_balance")) == {"credit_balance": 25}
    done = as_json(run("apply", "-f", str(file), "--yes", "--max-credits", "10", "--wait", "--json", "all"))
    assert [(each["fqdn"], each["action"], each["charged_credits"]) for each in done] == [
        ("one.example.test", "set", 0),
        ("two.example.test", "register", 0),
        ("paid.example.test", "register", 10),
    ]
    assert service.delegation("one.example.test") == {"ns3.provider.example", "ns2.provider.example"}
    assert "Nothing to do" in run("apply", "-f", str(file), "--yes").stdout
    assert as_json(run("apply", "-f", str(file), "--yes", "--json", "all")) == []
    exported = run("export").stdout
    assert "ns1.two.example.test" in exported
    assert "Nothing to do" in run("apply", "-f", "-", text=exported).stdout
    run("export", "missing.example.test", exit_code=1)
    for wrong in ("names: [", "names: 1", "names: {a.example.test: {ns: []}}", "names: {a: {glue: {b: x}}}"):
        assert "Error" in run("apply", "-f", "-", text=wrong, exit_code=2).stderr


def test_apply_publishes_the_ds_of_the_dnskey_that_the_file_has(run: Run, service: RunningService) -> None:
    key = ChildKey.new()
    entry = f"{{nameservers: [ns1.provider.example], ds_records: ['{key.dnskey}']}}"
    run("apply", "-f", "-", "--yes", "--wait", text=f"names: {{one.example.test: {entry}}}")
    assert service.ds("one.example.test") == {key.ds(owner="one.example.test")}


def test_names_are_found_in_any_spelling(run: Run) -> None:
    run("register", "k1.example.test.", *NS)
    run("register", "bücher.example.test", *NS)
    for name in ("K1.Example.test.", "Bücher.example.test", "xn--bcher-kva.example.test."):
        assert "names:" in run("export", name).stdout
        for words in (("names", "show"), ("ns", "list"), ("names", "timeline"), ("watch", "--settled")):
            run(*words, name)
        assert "Nothing to do" in run("apply", "-f", "-", text=f"names: {{{name}: {{}}}}").stdout
        run("set", name, "-n", "NS3.Provider.example.")
        run("ds", "add", name, DS.upper())
        run("ds", "add", name, f"{name} 3600 IN DS {DS}")
        assert run("ds", "list", name, "-q").stdout.split() == ["2371"], "one record, in two spellings"
        run("ds", "set", name)
    assert (
        "You have no name Missing.example.test" in run("export", "Missing.example.test", exit_code=1).stderr
    )
    for domain in ("EXAMPLE.test", "example.test."):
        listed = run("names", "list", "--domain", domain, "-q").stdout
        assert listed.split() == ["xn--bcher-kva.example.test", "k1.example.test"]


STRICT = {
    "a key twice": (
        "names:\n  one.example.test: {}\n  two.example.test: {}\n  one.example.test: {mode: plus}\n",
        "in line 4: The key `one.example.test` is there twice",
    ),
    "two spellings of one name": (
        "names: {new.example.test: {}, NEW.example.test.: {}}",
        "`new.example.test` and `NEW.example.test.` are the same name",
    ),
    "two Unicode spellings of one name": (
        "names: {bücher.example.test: {}, xn--bcher-kva.example.test: {}}",
        "are the same name",
    ),
    "a member twice": ("names: {new.example.test: {mode: free, mode: plus}}", "`mode` is there twice"),
    "an unknown member": ("names: {new.example.test: {ns: []}}", "`ns`, which is not known"),
    "an unknown key": ("name: {new.example.test: {}}", "`name`, which is not known"),
    "another key": ("names: {new.example.test: {}}\ndefaults: {}", "`defaults`, which is not known"),
    "no names": ("names:", "The file has no names"),
    "no mapping": ("- new.example.test", "The file is no mapping"),
    "an entry of another type": ("names: {new.example.test: 1}", "is no mapping"),
    "a text for a list": (
        "names: {new.example.test: {nameservers: ns1.provider.example}}",
        "no list of texts",
    ),
    "a number in a list": ("names: {new.example.test: {ds_records: [2371]}}", "no list of texts"),
    "a list of glue": ("names: {new.example.test: {glue: [192.0.2.1]}}", "`glue` is no mapping"),
    "glue that is no address": (
        "names: {new.example.test: {glue: {ns1.new.example.test: x}}}",
        "not an IP address",
    ),
    "a nameserver in two spellings": (
        "names: {new.example.test: {nameservers: [ns1.a.example, NS1.A.example.]}}",
        "`ns1.a.example` is there twice",
    ),
    "a host of glue in two spellings": (
        (
            "names: {new.example.test: {glue: {ns1.new.example.test: 192.0.2.1, NS1.new.example.test: "
            "192.0.2.2}}}"
        ),
        "`glue` has ns1.new.example.test twice",
    ),
    "a DS record that is none": ("names: {new.example.test: {ds_records: [1 2 3]}}", "no DS record"),
    "an unknown mode": ("names: {new.example.test: {mode: gold}}", "`mode` can't be `gold`"),
    "a number as a name": ("names: {1: {}}", "no name"),
    "no YAML": ("names: [", "isn't YAML"),
    "a wrong date": ("names: {new.example.test: {mode: 2026-99-99}}", "a wrong date or number"),
    "no date": ("names: {new.example.test: {mode: !!timestamp x}}", "a wrong date or number"),
    "a deep file": ("names: " + "[" * 2_000, "nested too deeply"),
    "two documents": ("names: {}\n---\nnames: {}", "isn't YAML"),
}


def test_a_wrong_file_changes_nothing(run: Run) -> None:
    for text, sentence in STRICT.values():
        stderr = run("apply", "-f", "-", "--yes", "--max-credits", "9", text=text, exit_code=2).stderr
        assert sentence in stderr
        assert "Expected" not in stderr, "no sentence of the library that reads it"
    assert run("names", "list", "-q").stdout == ""
    merged = "names: {new.example.test: &a {mode: free}, two.example.test: {<<: *a, mode: plus}}"
    assert "2 to register" in run("apply", "-f", "-", "--plan", text=merged).stdout


def test_commands_take_several_names(run: Run, service: RunningService, tmp_path: Path) -> None:
    names = [f"{label}.example.test" for label in "abc"]
    for name in names:
        run(
            "register",
            name,
            *NS,
            "--mode",
            "plus" if name == names[0] else "free",
            "--yes",
            "--max-credits",
            "10",
        )
    file = tmp_path / "names"
    file.write_text(f"# mine\n{names[1]}\n\nC.Example.test.\n{names[2]}\n")
    all_names = (names[0], "--from", str(file))
    change = ("ns", "set", *all_names, "-n", "ns2.provider.example", "-n", "NS3.provider.example")
    refused = run(*change, exit_code=1).stderr
    assert refused.count("ns1.provider.example, ns2.provider.example -> ns2.provider.example, ns3") == 3
    assert "3 names for 0 credits." in refused
    assert "the same command with --yes" in refused
    assert service.delegation(names[2]) == set(NS[1::2])
    done = as_json(run(*change, "--yes", "--wait", "--json", "fqdn,status"))
    assert done == [{"fqdn": name, "status": "active"} for name in names]
    assert service.delegation(names[2]) == {"ns2.provider.example", "ns3.provider.example"}
    assert "Nothing to do" in run(*change).stderr
    key = ChildKey.new()
    dnskey = str(key.dnskey)
    run("ds", "set", *all_names, dnskey, "--yes", "--wait")
    for name in names:
        assert service.ds(name) == {key.ds(owner=name)}, "each has the DS record of its own name"
    assert "Nothing to do" in run("ds", "set", *all_names, dnskey).stderr
    assert "one pair of quotes" in run("ds", "set", *names, *DS.split(), exit_code=2).stderr
    for words in (("trash",), ("renew",), ("restore",), ("set", "--no-glue"), ("ds", "set")):
        missing = run(*words, *all_names, "missing.example.test", "--yes", exit_code=1).stderr
        assert "Nothing was done" in missing
        assert "missing.example.test" in missing
        assert "Give a name" in run(*words, exit_code=2).stderr
    assert "can't be renewed now" in run("renew", *names, "--yes", exit_code=1).stderr
    assert (
        "missing.example.test" in run("renew", "--from", "-", text="missing.example.test", exit_code=1).stderr
    )
    run("trash", *all_names, exit_code=1)
    assert run("trash", *all_names, "--yes", "-q").stdout.split() == names
    assert run("names", "list", "-q").stdout == ""
    assert run("restore", *all_names, "--yes", "-q").stdout.split() == names
    service.clock.advance(days=340)
    unpaid = run("renew", *all_names, exit_code=5).stderr
    assert "renew a.example.test for 10 credits\nrenew b.example.test\n" in unpaid
    assert "3 names for 10 credits (you have 15)." in unpaid
    assert (
        "--yes --max-credits 10"
        in run("renew", *all_names, "--yes", "--max-credits", "9", exit_code=5).stderr
    )
    assert "for one name" in run("renew", *all_names, "--coupon", "X", exit_code=2).stderr
    done = as_json(run("renew", *all_names, "--yes", "--max-credits", "10", "--json", "fqdn,charged_credits"))
    assert [(each["fqdn"], each["charged_credits"]) for each in done] == list(
        zip(names, (10, 0, 0), strict=True)
    )
    assert as_json(run("credits", "balance", "--json", "credit_balance")) == {"credit_balance": 5}


def test_a_plan_has_the_price_of_all_its_names(
    eve: Registrant, run: Run, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Two names are free; then a step fails after another one is done."""
    monkeypatch.setenv("SUBLET_TOKEN", eve.token)
    document = "names:\n" + "".join(f"  m{number}.example.test:\n" for number in range(5))
    plan = as_json(run("apply", "-f", "-", "--plan", "--json", "fqdn,mode,price_credits", text=document))
    assert [each["price_credits"] for each in plan] == [0, 0, 10, 10, 10]
    assert run("apply", "-f", "-", "--plan", "-q", text=document).stdout.split()[0] == "m0.example.test"
    poor = run("apply", "-f", "-", "--yes", "--max-credits", "30", text=document, exit_code=5)
    assert "costs 30 credits, 5 more than you have" in poor.stderr
    free = document.replace("m4.example.test:", "m4.example.test: {mode: free}")
    assert "your free names are used up" in run("apply", "-f", "-", text=free, exit_code=1).stderr
    assert run("names", "list", "-q").stdout == ""
    part = "names: {a.example.test: {}, b.example.test: {nameservers: [ns1.b.example.test]}}"
    failed = run("apply", "-f", "-", "--yes", "-q", text=part, exit_code=6)
    assert failed.stdout == "a.example.test\n"
    assert "1 of 2 done; b.example.test failed: " in failed.stderr
    assert "Not done: b.example.test" in failed.stderr
    run("apply", "-f", "-", "--yes", text=part, exit_code=1)
    run("register", "c.example.test")
    run("register", "paid.example.test", "--mode", "plus", "--yes", "--max-credits", "10")
    exported = run("export").stdout
    assert "mode: plus" in exported
    assert "Nothing to do" in run("apply", "-f", "-", text=exported).stdout
    why = run("register", "d.example.test", exit_code=5).stderr
    assert "costs 10 credits in the mode plus, because your 2 free names are used" in why
    run("register", "e.example.test", "--mode", "plus", "--yes", "--max-credits", "10")
    low = run("names", "availability", "d.example.test", "--json", "open,available,payment")
    assert " PAYMENT " in run("names", "availability", "d.example.test").stdout
    assert as_json(low) == [{"open": True, "available": False, "payment": "5 credits are missing"}]


def test_tokens_tickets_and_other_commands(
    bob: Registrant, run: Run, monkeypatch: pytest.MonkeyPatch
) -> None:
    own_id = as_json(run("whoami", "--json", "token_id"))["token_id"]
    assert as_json(run("tokens", "show", "test", "--json", "id")) == {"id": own_id}
    secret = run(
        "tokens", "create", "ci", "--scope", "subdomains:read", "--only-name", "*.example.test", "-q"
    ).stdout.strip()
    token_id = run("tokens", "list", "--template", "{id} {name}").stdout.splitlines()[0].split()[0]
    run("tokens", "change", token_id, "--daily-credits", "0", "--expires-in-days", "3")
    assert as_json(run("tokens", "show", token_id, "--json", "daily_credits")) == {"daily_credits": 0}
    assert run("tokens", "rotate", "ci", "-q").stdout.strip() != secret
    run("tokens", "create", "ci", "--scope", "subdomains:read")
    assert (
        f"2 tokens are called `ci`: {int(token_id) + 1}, {token_id}"
        in run("tokens", "show", "ci", exit_code=1).stderr
    )
    run("tokens", "revoke", token_id, "--yes")
    run("tokens", "show", "unknown", exit_code=1)
    rotated = run("tokens", "rotate", "test", "--overlap-seconds", "600", "-q").stderr
    assert "The former secret is valid until" in rotated
    assert "SUBLET_TOKEN has the former secret" in rotated
    number = run("tickets", "open", "A question", "-", "-q", text="What is glue?").stdout.strip()
    run("tickets", "reply", number, "Found it: \u0645\u06cc\u200c\u062e\u0648\u0627\u0647\u0645.")
    shown = run("tickets", "show", number).stdout
    assert ("What is glue?" in shown, "\u06cc\u200c\u062e" in shown) == (True, True)
    assert number in run("tickets", "list").stdout
    group = run("organizations", "create", "Collective", "-q").stdout.strip()
    run("organizations", "rename", group, "Cooperative")
    assert "Cooperative" in run("organizations", "list").stdout
    run("organizations", "show", group)
    owner = run("organizations", "members", group, "-q").stdout.strip()
    invited = run("organizations", "invite", group, "bob@example.org", "member", "-q").stdout.strip()
    assert invited in run("organizations", "invitations", group, "-q").stdout
    run("organizations", "revoke-invitation", group, invited)
    run("organizations", "set-role", group, owner, "member", exit_code=1)
    run("organizations", "remove-member", group, owner, "--yes", exit_code=1)
    run("organizations", "join", "unknown", exit_code=1)
    run("register", "gift.example.test")
    sent = [run("transfer", "send", "gift.example.test", bob.email, "--yes", "-q").stdout.strip()]
    run("transfer", "withdraw", sent[0])
    sent.append(run("transfer", "send", "gift.example.test", bob.email, "--yes", "-q").stdout.strip())
    assert sent[1] in run("transfer", "list", "--state", "pending", "-q").stdout
    run("transfer", "accept", sent[1], exit_code=1)
    run("organizations", "invite", group, bob.email, "member")
    monkeypatch.setenv("SUBLET_TOKEN", bob.token)
    invited = run("invitation", "list", "-q").stdout.strip()
    run("invitation", "decline", invited)
    run("invitation", "accept", invited, exit_code=1)
    run("transfer", "decline", sent[1])
    run("transfer", "show", sent[1])
    run("account", "reminders", "off")
    assert json.loads(run("account", "export").stdout)["account"]["email"] == bob.email
    run("account", "delete", exit_code=1)
    run("account", "delete", "--confirm", bob.email, "--yes")
    assert "subletctl login" in run("whoami", exit_code=4).stderr


def test_a_login_in_a_browser_is_stored_for_the_owner_alone(
    run: Run, who: Registrant, service: RunningService, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.delenv("SUBLET_TOKEN")
    monkeypatch.delenv("SUBLET_URL")
    assert "There is no address" in run("whoami", exit_code=4).stderr
    program = subprocess.Popen(
        [*PROGRAM, "login", service.base_url, "--name", "laptop", "--no-browser", "--json", "token"],
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    )
    assert program.stderr is not None
    line = program.stderr.readline()
    code = line.split()[-1]
    allowed = signed_in(service, who.email).call("POST", f"/devices/{code}/allow", {})
    assert allowed.status_code == 200, line
    out, _ = program.communicate(timeout=180)
    assert json.loads(out) == {"token": "laptop"}
    (file,) = (tmp_path / "subletctl").iterdir()
    assert stat.S_IMODE(file.stat().st_mode) == 0o600
    assert who.email in run("whoami").stdout
    run("login", service.base_url, "--token", "--profile", "ci", text=who.token)
    assert run("profiles", "-q").stdout.split() == ["default", "ci"]
    monkeypatch.setenv("SUBLET_URL", "http://127.0.0.1:9/api/v1")
    foreign = run("whoami", exit_code=4).stderr
    assert f"is for {service.base_url}, and SUBLET_URL is http://127.0.0.1:9" in foreign, "so it isn't sent"
    assert "unset SUBLET_URL, or subletctl login http://127.0.0.1:9" in foreign
    assert "There is no token" in run("whoami", "--profile", "new", exit_code=4).stderr
    monkeypatch.setenv("SUBLET_URL", service.origin)
    assert who.email in run("whoami").stdout
    monkeypatch.delenv("SUBLET_URL")
    rotated = run("tokens", "rotate", "laptop", "--overlap-seconds", "0", "--profile", "default")
    assert "The profile default has the new secret now" in rotated.stderr
    monkeypatch.setenv("SUBLET_TOKEN", who.token)
    rotated = run("tokens", "rotate", "laptop", "--overlap-seconds", "0")
    assert "The profile default has the new secret now" in rotated.stderr, "also if another token is used"
    assert "SUBLET_TOKEN" not in rotated.stderr
    run("logout", "--revoke")
    states = {each["name"]: each["revoked_at"] for each in service.list_all(who, "/tokens", "tokens")}
    assert [name for name, revoked_at in states.items() if revoked_at] == ["laptop"]
    run(
        "login",
        service.base_url,
        "--token",
        "--profile",
        "other",
        text=(other := service.issue_token(who.email)),
    )
    service.call(other, "DELETE", f"/tokens/{service.call(other, 'GET', '/me').json()['token']['id']}")
    forgotten = run("logout", "--revoke", "--profile", "other").stdout
    assert forgotten == "The profile other is forgotten. It had no valid token, so none was revoked.\n"
    monkeypatch.delenv("SUBLET_TOKEN")
    run("logout", exit_code=1)
    assert run("profiles", "-q").stdout.split() == ["ci"]


def test_a_login_survives_a_lost_answer(
    run: Run, who: Registrant, service: RunningService, monkeypatch: pytest.MonkeyPatch
) -> None:
    start, poll = DevicesMethods.start, DevicesMethods.poll
    polls: list[Any] = []

    def allowed(client: DevicesMethods, **given: Any) -> DeviceAnswer:
        started = start(client, **given)
        signed_in(service, who.email).call("POST", f"/devices/{started.user_code}/allow", {})
        return started

    def lost_first(client: DevicesMethods, **given: Any) -> SecretAnswer:
        polls.append(given)
        if len(polls) == 1:
            raise NotReached("no answer")
        return poll(client, **given)

    monkeypatch.setattr(DevicesMethods, "start", allowed)
    monkeypatch.setattr(DevicesMethods, "poll", lost_first)
    monkeypatch.setattr(login, "SLOWER_BY_SECONDS", 0)
    run("login", service.base_url, "--no-browser")
    assert len(polls) == 2


def test_output_is_for_people_or_for_programs(run: Run) -> None:
    run("register", "blog.example.test")
    assert run("names", "list", "--template", "{fqdn}\\t{status}").stdout.startswith("blog.example.test\t")
    assert run("names", "list", "-q").stdout == "blog.example.test\n"
    assert "\x1b" not in run("names", "list").stdout
    assert "Choose from id, fqdn" in run("names", "list", "--json", "name", exit_code=2).stderr
    for wrong in ("{", "{x}", "{}", "{fqdn.x}", "{fqdn[x]}", "{fqdn[99]}", "{fqdn:d}", "{fqdn:{x}}"):
        assert "Error: " in run("names", "list", "--template", wrong, exit_code=2).stderr
    assert "register" in run("--help").stdout
    run("unknown", exit_code=2)
    reader, writer = os.pipe()
    os.close(reader)
    for words in (("names", "list"), ("export",), ("account", "export")):
        done = subprocess.run(
            [*PROGRAM, *words], stdout=writer, stderr=subprocess.PIPE, text=True, check=False
        )
        assert done.stderr == "", "a reader that has enough, such as head, is no error"
    os.close(writer)
    with Path("/dev/full").open("w") as full:
        done = subprocess.run(
            [*PROGRAM, "register", "shop.example.test"],
            stdout=full,
            stderr=subprocess.PIPE,
            text=True,
            check=False,
        )
    told = "Error: The command is done, but its output can't be written: No space left on device.\n"
    assert (done.returncode, done.stderr[: len(told)]) == (2, told)
    closed = ["sh", "-c", 'exec "$@" >&- 2>&-', "sh", *PROGRAM, "names", "list"]
    assert subprocess.run(closed, check=False).returncode == 0
    missing = run("account", "export", "no/such/file", exit_code=2).stderr
    assert missing.startswith("Error: no/such/file: No such file or directory. Check the path")


def test_a_secret_survives_a_wrong_member_and_a_lost_answer(
    run: Run, monkeypatch: pytest.MonkeyPatch
) -> None:
    words = ("tokens", "create", "ci", "--scope", "account:read")
    wrong = run(*words, "--json", "sekret", exit_code=2)
    assert "There is no member sekret" in wrong.stderr
    secrets = [json.loads(wrong.stdout)["secret"]]
    create = TokensMethods.create

    def lost(*given: Any, **members: Any) -> SecretAnswer:
        return replace(create(*given, **members), secret=None)

    monkeypatch.setattr(TokensMethods, "create", lost)
    secrets.append(run(*words, "-q").stdout.strip())
    for each in secrets:
        monkeypatch.setenv("SUBLET_TOKEN", each)
        run("whoami")


def test_an_answer_that_cannot_be_shown_is_no_failure(run: Run) -> None:
    environment = {**os.environ, "PYTHONIOENCODING": "latin-1"}
    words = [*PROGRAM, "organizations", "create", "\u6f22"]
    done = subprocess.run(words, env=environment, capture_output=True, check=False)
    assert (done.returncode, done.stderr) == (0, b"")
    assert b"?" in done.stdout
    assert "\u6f22" in run("organizations", "list").stdout


def test_an_interrupted_command_has_an_exit_code(run: Run) -> None:
    run("register", "blog.example.test")
    watch = subprocess.Popen([*PROGRAM, "watch"], stdout=subprocess.PIPE, stderr=subprocess.PIPE)
    assert watch.stdout is not None
    assert watch.stdout.readline()
    watch.send_signal(signal.SIGINT)
    assert (watch.communicate(timeout=180)[1], watch.returncode) == (b"Interrupted.\n", 130)


def test_watch_goes_on_until_no_name_is_left(run: Run) -> None:
    names = ("one.example.test", "two.example.test")
    for each in names:
        run("register", each)
    run("watch", names[0], "none.example.test", exit_code=1)
    words = [*PROGRAM, "watch", *names, "--interval", "1"]
    watch = subprocess.Popen(words, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
    lines = iter(watch.stdout or ())
    assert [next(lines).split()[0] for _ in names] == [*names]
    for each in names:
        run("trash", each, "--yes")
        assert f"{each}  gone\n" in lines
    assert (watch.communicate(timeout=180)[1].partition("\n")[0], watch.returncode) == (
        "Error: No name is left to watch.",
        1,
    )


def test_an_interrupted_command_tells_what_is_left(run: Run, monkeypatch: pytest.MonkeyPatch) -> None:
    names = ("one.example.test", "two.example.test")
    for each in names:
        run("register", each)
    delete = SubdomainsMethods.delete

    def interrupted(client: SubdomainsMethods, fqdn: str) -> Deleted:
        if fqdn == names[1]:
            raise KeyboardInterrupt
        return delete(client, fqdn)

    monkeypatch.setattr(SubdomainsMethods, "delete", interrupted)
    stopped = run("trash", *names, "--yes", "-q", exit_code=130)
    assert stopped.stdout == "one.example.test\n"
    assert "1 of 2 done; two.example.test failed: Interrupted." in stopped.stderr


def test_a_log_has_the_long_waits_of_a_command(run: Run, monkeypatch: pytest.MonkeyPatch) -> None:
    run("register", "blog.example.test")
    delete = SubdomainsMethods.delete

    def retried(client: SubdomainsMethods, fqdn: str) -> Deleted:
        for seconds in (0.5, 30):
            _core.LOGGER.info(_core._RETRYING, "delete", seconds, "Too many requests.")
        return delete(client, fqdn)

    monkeypatch.setattr(SubdomainsMethods, "delete", retried)
    stderr = run("trash", "blog.example.test", "--yes", "-q").stderr
    assert ("in 30.0 s: Too many requests." in stderr, "in 0.5 s" in stderr) == (True, False)


def test_a_lost_wait_says_that_the_name_is_stored(run: Run, monkeypatch: pytest.MonkeyPatch) -> None:
    def lost(_client: Subdomains, fqdn: str, **_: Any) -> None:
        raise NotReached(f"no answer about {fqdn}")

    monkeypatch.setattr(Subdomains, "wait", lost)
    stderr = run("register", "blog.example.test", *NS, "--wait", exit_code=3).stderr
    assert "blog.example.test is stored, but perhaps not in the DNS yet." in stderr
    assert "Next: subletctl watch --settled blog.example.test" in stderr


def test_nothing_is_issued_that_cannot_be_stored(
    run: Run, service: RunningService, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "file").touch()
    monkeypatch.setenv("XDG_CONFIG_HOME", str(tmp_path / "file"))
    for words in (("login", service.base_url), ("signup", service.base_url, "new@example.org", "New")):
        assert "Not a directory" in run(*words, exit_code=2).stderr


def test_programs_store_profiles_one_after_the_other(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("XDG_CONFIG_HOME", str(tmp_path))
    monkeypatch.setenv("PYTHON_KEYRING_BACKEND", "keyring.backends.fail.Keyring")
    code = (
        "from sublet_client.cli.profiles import *; print(flush=True); "
        "save_profile('other', 'https://names.example.net', 'x')"
    )
    with profiles.changed() as own:
        other = subprocess.Popen([sys.executable, "-c", code], stdout=subprocess.PIPE)
        assert other.stdout is not None
        with other.stdout:
            assert other.stdout.readline(), "it has started, so it waits for the lock"
        with pytest.raises(subprocess.TimeoutExpired):
            other.wait(2)
        own["own"] = {"url": "https://names.example.net"}
    assert other.wait(60) == 0
    assert profiles.read_profiles().keys() == {"own", "other"}


def test_a_command_that_is_interrupted_before_it_begins_has_an_exit_code(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    def interrupt(_name: str) -> None:
        raise KeyboardInterrupt

    monkeypatch.setattr(cli_main, "import_module", interrupt)
    assert CliRunner().invoke(root, ["whoami"]).exit_code == 130


def test_a_wrong_address_is_told(run: Run, service: RunningService, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("SUBLET_URL", f"{service.base_url}/more")
    assert "the address is wrong" in run("whoami", exit_code=1).stderr


def test_an_unreachable_registry_has_an_exit_code(run: Run, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("SUBLET_URL", "http://127.0.0.1:9/api/v1")
    for words in (("names", "list"), ("login", "http://127.0.0.1:9", "--token")):
        refused = run(*words, text="sublet_x", exit_code=3).stderr
        assert "http://127.0.0.1:9 gave no answer" in refused
        assert "whoami" in refused
    with socket.create_server(("127.0.0.1", 0)) as silent:
        monkeypatch.setenv("SUBLET_URL", address := f"http://127.0.0.1:{silent.getsockname()[1]}")
        assert f"{address} gave no answer" in run("whoami", "--timeout", "0.2", exit_code=3).stderr


@pytest.mark.parametrize("seconds", ["nan", "inf", "1e400", "0", "-1"])
def test_times_that_no_program_can_wait_for_are_refused(run: Run, seconds: str) -> None:
    for words in (("whoami", f"--timeout={seconds}"), ("watch", f"--interval={seconds}")):
        assert "Invalid value for '--" in run(*words, exit_code=2).stderr


def test_agents_need_a_separate_package(monkeypatch: pytest.MonkeyPatch) -> None:
    """With it: test_mcp.py."""
    monkeypatch.setitem(sys.modules, "sublet_mcp.server", None)  # as if it weren't installed
    done = CliRunner().invoke(root, ["mcp"])
    assert (done.exit_code, done.stderr.splitlines()[-1]) == (
        2,
        "Next: pip install ./clients/mcp, from a clone of the repository",
    )


def test_help_is_quick_because_it_imports_no_client() -> None:
    """Counted in modules, because seconds depend on the machine."""
    code = (
        "import sys; sys.argv[1:] = ['--help']\nfrom sublet_client.cli.main import main\ntry: "
        "main()\nexcept SystemExit: pass\n"
    )
    code += "print({'asyncio', 'httpx2', 'msgspec', 'rich', 'ssl', 'yaml'} & sys.modules.keys())"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.endswith("set()\n")


@pytest.mark.parametrize("shell", share(["bash"], whole=["bash", "zsh", "fish"]))
def test_shells_complete_commands(shell: str) -> None:
    environment = {**os.environ, "_SUBLETCTL_COMPLETE": f"{shell}_source"}
    script = subprocess.run(PROGRAM, env=environment, capture_output=True, text=True, check=True).stdout
    assert "subletctl" in script
    word = "" if shell == "fish" else "2"
    environment |= {
        "_SUBLETCTL_COMPLETE": f"{shell}_complete",
        "COMP_WORDS": "subletctl names ",
        "COMP_CWORD": word,
    }
    found = subprocess.run(PROGRAM, env=environment, capture_output=True, text=True, check=True).stdout
    assert "availability" in found


def test_filters_list_the_values_of_the_registry() -> None:
    for words, option, values in (
        (("names", "list"), "status", STATUSES),
        (("names", "list"), "health_state", HEALTH_STATES),
        (("tickets", "list"), "status", TICKET_STATUSES),
        (("transfer", "list"), "state", TRANSFER_STATES),
        (("transfer", "list"), "direction", DIRECTIONS),
    ):
        group = root.get_command(click.Context(root), words[0])
        assert isinstance(group, click.Group)
        (found,) = (each for each in group.commands[words[1]].params if each.name == option)
        assert isinstance(found.type, click.Choice)
        assert tuple(found.type.choices) == values
        assert values[0] in CliRunner().invoke(root, [*words, "--help"]).stdout


def test_every_code_has_a_next_command() -> None:
    assert NEXT.keys() == BY_CODE.keys()
    assert SENTENCES.keys() <= BY_CODE.keys()
    assert {each.partition(" ")[0] for each in CASES} <= BY_CODE.keys()


def test_every_listed_command_exists() -> None:
    context = click.Context(root)
    for name in COMMANDS:
        command = root.get_command(context, name)
        assert command is not None
        assert command.name == name


def test_a_person_is_asked_on_a_terminal(service: RunningService, who: Registrant, tmp_path: Path) -> None:
    register = ("register", "shop.example.test", "--mode", "plus")
    pay = b"costs 10 credits; 15 are left then. Pay?"
    service.register(who, "blog.example.test")
    several = ("trash", "blog.example.test", "shop.example.test")
    for answer, words, exit_code, expected in (
        ("n", register, 5, pay),
        ("y", register, 0, pay),
        ("n", several, 1, b"2 names for 0 credits."),
        ("y", several, 0, b"[##########----------] 1/2 shop.example.test"),
    ):
        main_end, end = pty.openpty()
        environment = {
            **os.environ,
            "SUBLET_URL": service.base_url,
            "SUBLET_TOKEN": who.token,
            "XDG_CONFIG_HOME": str(tmp_path),
        }
        program = subprocess.Popen(
            [*PROGRAM, *words], env=environment, stdin=end, stdout=end, stderr=end, close_fds=True
        )
        os.close(end)
        shown: list[bytes] = []

        def read(main_end: int = main_end, shown: list[bytes] = shown) -> None:
            try:
                while piece := os.read(main_end, 1000):
                    shown.append(piece)
            except OSError:
                pass  # the other end is closed

        reader = threading.Thread(target=read)
        reader.start()
        os.write(main_end, f"{answer}\n".encode())
        assert program.wait(60) == exit_code
        reader.join(60)
        os.close(main_end)
        assert expected in b"".join(shown)
        assert b"Error" not in b"".join(shown)
