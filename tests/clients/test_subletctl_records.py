"""`subletctl records` against the real service: values in any spelling, two writers at once, exit codes."""

import subprocess
import tempfile
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import dns.name
import dns.zone
import pytest

from sublet_client._sync import RecordsMethods
from sublet_client.exceptions import NotReached
from support.error_triggers import new_name, new_user, unused_name
from support.open_registry import opened
from support.running_service import Registrant, RunningService
from support.subletctl import PROGRAM, Run, as_json, subletctl

NS = ("-n", "ns1.provider.example", "-n", "ns2.provider.example")


@pytest.fixture(scope="module")
def shop(tmp_path_factory: pytest.TempPathFactory) -> Iterator[RunningService]:
    with opened(tmp_path_factory.mktemp("records"), free_quota=200) as service:
        yield service


@pytest.fixture(scope="module")
def who(shop: RunningService) -> Registrant:
    return new_user(shop)


@pytest.fixture
def fqdn(shop: RunningService, who: Registrant) -> str:
    return new_name(shop, who)


@pytest.fixture
def run(shop: RunningService, who: Registrant, monkeypatch: pytest.MonkeyPatch) -> Run:
    return subletctl(shop, who, monkeypatch)


def answers(shop: RunningService, name: str, rdtype: str) -> list[str]:
    return sorted(shop.dig(name, rdtype, "+short").splitlines())


def test_records_are_set_added_and_removed_in_any_spelling(run: Run, shop: RunningService, fqdn: str) -> None:
    upper = f"{fqdn.upper()}."
    assert as_json(run("records", "list", fqdn, "--json", "all")) == []
    run("records", "set", fqdn, "@", "A", "8.8.4.4", "--wait")
    assert answers(shop, fqdn, "A") == ["8.8.4.4"]
    run("records", "add", upper, f"{upper}", "a", "8.8.8.8", "--ttl", "60")
    added = as_json(run("records", "add", fqdn, "@", "TYPE1", "8.8.8.8", "--json", "all"))
    assert added == [{"name": "@", "type": "A", "ttl": 60, "values": ["8.8.4.4", "8.8.8.8"]}]
    run("records", "set", fqdn, "Mail", "MX", "10 Mail.Example.net", "20 other.example.net.")
    run("records", "remove", fqdn, f"mail.{fqdn}", "mx", "010 mail.example.net.")
    run("records", "add", fqdn, "@", "TXT", "v=spf1 -all")
    listed = run("records", "list", upper).stdout
    assert "mail  MX    300  20 other.example.net." in listed
    assert '@     TXT   300  "v=spf1 -all"' in listed
    exported = run("records", "export", upper).stdout
    zone = dns.zone.from_text(exported, origin=f"{fqdn}.", check_origin=False)
    assert {each for each, _, _ in zone.iterate_rdatas()} == {
        dns.name.from_text(each, None) for each in ("@", "mail")
    }
    assert zone.find_rdataset("@", "A").ttl == 60
    for words in (("--name", f"{upper}", "--type", "txt"), ("--type", "TYPE16")):
        found = as_json(run("records", "list", fqdn, *words, "--json", "values"))
        assert found == [{"values": ['"v=spf1 -all"']}]
    run("records", "remove", fqdn, "@", "A")
    run("records", "remove", fqdn, "@", "TXT", '"v=spf1 -all"')
    assert run("records", "remove", fqdn, "mail", "MX", "-q").stdout == ""
    assert "NXDOMAIN" in shop.dig(f"mail.{fqdn}", "MX")
    moved = f"@ NS ns1.provider.example.\n{exported}"
    imported = run("records", "import", upper, "-", "--wait", text=moved)
    assert "Line 1: " in imported.stderr
    assert run("records", "export", fqdn).stdout == exported
    assert "Line 2: " in run("records", "import", fqdn, text="@ A 8.8.8.8\n@ A x", exit_code=1).stderr


def test_a_refused_change_names_the_next_command(
    run: Run, shop: RunningService, who: Registrant, fqdn: str
) -> None:
    run("records", "set", fqdn, "@", "A", "8.8.4.4")
    assert f"subletctl records list {fqdn}" in run("ns", "set", fqdn, *NS, exit_code=1).stderr
    alone = run("records", "set", fqdn, "@", "CNAME", "example.github.io", exit_code=1).stderr
    assert "A CNAME must be alone" in alone
    assert "8.8.4.4" in run("records", "remove", fqdn, "@", "TXT").stdout
    assert f"records list {fqdn}" in run("records", "remove", fqdn, "@", "A", "8.8.8.8", exit_code=1).stderr
    assert "names list" in run("records", "list", unused_name("records.test"), exit_code=1).stderr
    for words in (("www", "NS", "ns1.x.example"), ("a..b", "A", "8.8.8.8"), ("www", "A", "8.8.8")):
        assert "Error: " in run("records", "add", fqdn, *words, exit_code=2).stderr
    run("records", "set", fqdn, "www", "A", exit_code=2)
    delegated, without = unused_name("records.test"), unused_name()
    shop.register(who, delegated, nameservers=list(NS[1::2]))
    shop.register(who, without)
    refused = run("records", "set", delegated, "@", "A", "8.8.4.4", exit_code=1).stderr
    assert f"subletctl ns set {delegated} --no-nameservers" in refused
    assert "can't have records" in run("records", "set", without, "@", "A", "8.8.4.4", exit_code=1).stderr


def test_writers_at_once_lose_no_change(run: Run, fqdn: str) -> None:
    run("records", "set", fqdn, "@", "A", "8.8.4.4")

    def add(number: int) -> int:
        words = ("records", "add", fqdn, "_acme-challenge", "TXT", f"token {number}")
        return subprocess.run([*PROGRAM, *words], capture_output=True, check=False).returncode

    with ThreadPoolExecutor(3) as pool:
        assert list(pool.map(add, range(3))) == [0] * 3
    (found,) = as_json(run("records", "list", fqdn, "--type", "TXT", "--json", "values"))
    assert found["values"] == [f'"token {number}"' for number in range(3)]


def test_apply_makes_records_equal_a_file(run: Run, shop: RunningService, fqdn: str) -> None:
    new = unused_name("records.test")
    file = f"""\
names:
  {fqdn}:
    records:
      - {{name: "@", type: a, values: [8.8.8.8, 8.8.4.4]}}
      - {{name: www.{fqdn}., type: CNAME, values: [Example.github.io], ttl: 3600}}
  {new}:
    records: [{{name: "@", type: TXT, values: ["a; b"]}}]
"""
    plan = run("apply", "-f", "-", "--plan", text=file).stdout
    assert "records @ A: none -> 8.8.4.4, 8.8.8.8 (TTL 300)" in plan
    run("apply", "-f", "-", "--yes", "--wait", text=file)
    assert answers(shop, fqdn, "A") == ["8.8.4.4", "8.8.8.8"]
    assert answers(shop, new, "TXT") == ['"a; b"']
    assert "Nothing to do" in run("apply", "-f", "-", text=file).stdout
    exported = run("export", fqdn, new).stdout
    assert "www" in exported
    assert "Nothing to do" in run("apply", "-f", "-", text=exported).stdout
    other = file.replace("8.8.8.8, ", "")
    run("apply", "-f", "-", "--yes", text=other)
    assert answers(shop, fqdn, "A") == ["8.8.4.4"]
    delegated = f"names: {{{fqdn}: {{nameservers: [ns1.provider.example], records: []}}}}"
    run("apply", "-f", "-", "--yes", "--wait", text=delegated)
    assert shop.delegation(fqdn) == {"ns1.provider.example"}
    back = file.replace("    records:\n", "    nameservers: []\n    records:\n")
    run("apply", "-f", "-", "--yes", "--wait", text=back)
    assert answers(shop, fqdn, "A") == ["8.8.4.4", "8.8.8.8"]
    for wrong, sentence in (
        ("[{name: a..b, type: A, values: [8.8.4.4]}]", "empty label"),
        ("[{name: a, type: A, values: [8.8.4.4], x: 1}]", "has `x`, which is not known"),
        ("[{name: a, type: A, values: []}]", "has no values"),
        ("[{name: a, type: A, values: [8.8.4.4], ttl: 1h}]", "can't be `1h`"),
        (
            "[{name: a, type: A, values: [8.8.4.4]}, {name: A, type: a, values: [8.8.4.4]}]",
            "has A of a twice",
        ),
        ("{}", "is no list"),
        (
            "[{name: a, type: A, values: [8.8.4.4]}], nameservers: [ns1.provider.example]",
            "Keep one of the two",
        ),
    ):
        text = f"names: {{{fqdn}: {{records: {wrong}}}}}"
        assert sentence in run("apply", "-f", "-", text=text, exit_code=2).stderr


def test_what_apply_removed_is_put_back_if_the_rest_is_refused(
    run: Run, shop: RunningService, who: Registrant, fqdn: str
) -> None:
    run("records", "set", fqdn, "@", "A", "8.8.4.4")
    without_glue = f"names: {{{fqdn}: {{nameservers: [ns1.{fqdn}], records: []}}}}"
    assert "glue" in run("apply", "-f", "-", "--yes", text=without_glue, exit_code=1).stderr
    assert answers(shop, fqdn, "A") == ["8.8.4.4"]
    without_records = unused_name()
    shop.register(who, without_records, nameservers=list(NS[1::2]))
    entry = "{nameservers: [], records: [{name: '@', type: A, values: [8.8.4.4]}]}"
    text = f"names: {{{without_records}: {entry}}}"
    assert "can't have records" in run("apply", "-f", "-", "--yes", text=text, exit_code=1).stderr
    assert shop.delegation(without_records) == set(NS[1::2])


def test_a_plan_gives_no_name_both_nameservers_and_records(
    run: Run, shop: RunningService, who: Registrant, fqdn: str
) -> None:
    delegated = unused_name("records.test")
    shop.register(who, delegated, nameservers=list(NS[1::2]))
    records = "{records: [{name: '@', type: A, values: [8.8.4.4]}]}"
    run("records", "set", fqdn, "@", "A", "8.8.4.4")
    for name, entry, has in (
        (delegated, records, "has nameservers"),
        (fqdn, "{nameservers: [ns1.provider.example]}", "has records"),
    ):
        refused = run("apply", "-f", "-", "--plan", text=f"names: {{{name}: {entry}}}", exit_code=1)
        assert f"{name} {has}, so it can't have" in refused.stderr
    refused = run("ns", "set", fqdn, delegated, "-n", "ns1.provider.example", exit_code=1)
    assert f"Nothing was done. {fqdn} has records" in refused.stderr


def editor(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, *texts: str) -> Path:
    """Make $EDITOR a program that replaces the file by the next text, and writes what it was given to the
    returned file.
    """
    for number, text in enumerate(texts):
        (tmp_path / f"text{number}").write_text(text)
    program, given = tmp_path / "editor", tmp_path / "given"
    program.write_text(
        f'#!/bin/sh\ncat "$1" >> {given}\ncd {tmp_path}\nnext=$(ls text* | head -n 1)\nsleep 0.01\n'
        'cp "$next" "$1"\nrm "$next"\ntouch -d tomorrow "$1"\n'
    )
    program.chmod(0o755)
    monkeypatch.setenv("EDITOR", str(program))
    monkeypatch.delenv("VISUAL", raising=False)
    return given


def test_records_are_edited(
    run: Run, shop: RunningService, fqdn: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    run("records", "set", fqdn, "@", "TXT", "a; b", "--wait")
    wanted = (
        f'$ORIGIN {fqdn}.\n; the site\n@ 300 IN TXT "a; b"\n@\t300\tIN\tTXT\t"v=spf1 -all"\nwww 60 in a '
        "8.8.4.4\n"
    )
    given = editor(tmp_path, monkeypatch, wanted)
    edited = as_json(run("records", "edit", fqdn, "--json", "all", "--wait"))
    assert {(each["name"], each["type"], each["ttl"], len(each["values"])) for each in edited} == {
        ("@", "TXT", 300, 2),
        ("www", "A", 60, 1),
    }
    assert '@   300 IN TXT   "a; b"' in given.read_text()
    for wrong, said in (("www 60 IN\n", "Line 1"), ("www 60 IN A 10.0.0.1\n", "10.0.0.1")):
        editor(tmp_path, monkeypatch, wrong)
        refused = run("records", "edit", fqdn, exit_code=1)
        assert said in refused.stderr
    assert as_json(run("records", "list", fqdn, "--json", "all")) == edited


def test_edited_records_survive_a_refusal(
    run: Run, fqdn: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def lost(*_: Any, **__: Any) -> None:
        raise NotReached("no answer")

    monkeypatch.setattr(RecordsMethods, "replace_zone_file", lost)
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path))
    editor(tmp_path, monkeypatch, "www 60 IN A 8.8.4.4\n")
    stderr = run("records", "edit", fqdn, exit_code=3).stderr
    (kept,) = tmp_path.glob(f"{fqdn}.*.zone")
    assert f"What you wrote is in {kept}." in stderr
    assert kept.read_text() == "www 60 IN A 8.8.4.4\n"
