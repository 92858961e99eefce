"""`sublet zone config`: what it prints and writes, and what it refuses."""

import json
import re
import sqlite3
import tomllib
from contextlib import closing
from pathlib import Path
from typing import Any

import pytest

from sublet.config import load_settings
from sublet.primaries.server_config import key_name
from support.commands import answer, run
from support.running_service import registry_address

LISTEN = ("--listen", "192.0.2.53")


@pytest.fixture
def database(tmp_path: Path) -> str:
    address = registry_address(tmp_path)
    run(address, "init")
    hosts = ("ns1.zone.example", "ns2.zone.example", "ns.elsewhere.example")
    words = [word for host in hosts for word in ("--apex-nameserver", host)]
    run(address, "domain", "add", "zone.example", *words)
    return address


def made(address: str, *words: str) -> dict[str, Any]:
    """Return the files of each machine by their last names."""
    value = answer(address, "zone", "config", "zone.example", *words)
    return {
        machine["name"]: {Path(each["path"]).name: each for each in machine["files"]}
        for machine in value["machines"]
    }


@pytest.mark.parametrize("server", ["knot", "bind", "powerdns"])
def test_every_file_is_printed_with_one_fresh_key(database: str, server: str) -> None:
    first = made(database, "--server", server, *LISTEN, "--secondary", "ns2.zone.example=198.51.100.53")
    assert list(first) == ["primary", "ns2.zone.example-nsd", "ns2.zone.example-knot", "sublet"]
    secret = first["sublet"]["sublet-zone-example.key"]["text"].strip()
    with_secret = {
        (machine, name) for machine, files in first.items() for name in files if secret in files[name]["text"]
    }
    assert len(with_secret) == 2  # the primary's and ours; no secondary may update
    assert all(first[machine][name]["secret"] for machine, name in with_secret)
    options = ("--server", server, *LISTEN, "--secondary", "ns2.zone.example=198.51.100.53")
    zone = run(database, "zone", "config", "zone.example", *options)
    assert re.findall(r"(\S+) 3600 (?:IN )?A ([0-9.]+)", zone) == [
        ("ns1.zone.example.", "192.0.2.53"),
        ("ns2.zone.example.", "198.51.100.53"),
    ]
    again = made(database, "--server", server, *LISTEN)
    assert secret not in json.dumps(again)


def test_sublets_own_settings_are_printed(database: str) -> None:
    files = made(database, "--server", "knot", "--listen", "[2001:db8::53]:5353")
    settings = tomllib.loads(files["sublet"]["primary.toml"]["text"])
    assert settings["primaries"]["zone-example"] == {
        "address": "2001:db8::53",
        "port": 5353,
        "key_name": "sublet-zone-example",
        "key_algorithm": "hmac-sha256",
        "key_file": "/etc/sublet/sublet-zone-example.key",
    }
    printed = run(database, "zone", "config", "zone.example", "--server", "knot", "--listen", "2001:db8::53")
    assert "zone-set zone.example ns1.zone.example. 3600 AAAA 2001:db8::53 " in printed


def test_the_settings_of_a_zone_with_a_long_name_are_valid(database: str, tmp_path: Path) -> None:
    zone = f"{'a' * 40}.{'b' * 40}.example"
    run(database, "domain", "add", zone)
    words = ("zone", "config", zone, "--server", "knot", *LISTEN, "--output", str(tmp_path))
    run(database, *words)
    assert load_settings(tmp_path / "sublet" / "primary.toml", {}).primaries[0].key_name == key_name(zone)


def test_written_files_are_not_overwritten(database: str, tmp_path: Path) -> None:
    folder = tmp_path / "servers"
    words = ("zone", "config", "zone.example", "--server", "bind", *LISTEN, "--output", str(folder))
    printed = run(database, *words)
    secret = (folder / "sublet" / "sublet-zone-example.key").read_text().strip()
    assert secret not in printed
    modes = {path.name: path.stat().st_mode & 0o777 for path in folder.rglob("*") if path.is_file()}
    assert modes == {
        "named.conf": 0o644,
        "sublet-zone.example.keys": 0o600,
        "zone.example.zone": 0o644,
        "sublet-zone-example.key": 0o600,
        "primary.toml": 0o644,
    }
    assert "exists already" in run(database, *words, expect=1)
    assert (folder / "sublet" / "sublet-zone-example.key").read_text().strip() == secret


@pytest.mark.parametrize(
    ("words", "sentence"),
    [
        ((), "Give the primary's address"),
        (("--listen", "ns1.zone.example"), "is not an IP address"),
        (("--listen", "::"), "Other hosts can't reach"),
        (("--listen", "192.0.2.53:0"), "Other hosts can't reach"),
        (("--listen", "fe80::53%eth0"), "Other hosts can't reach"),
        (("--listen", "192.0.2.53:70000"), "is not an IP address"),
        ((*LISTEN, "--secondary", "198.51.100.53"), "is not HOST=ADDRESS"),
        ((*LISTEN, "--secondary", "ns_2.zone.example=198.51.100.53"), "letters, digits and hyphens"),
        ((*LISTEN, "--secondary", "ns2.zone.example=nowhere"), "is not an IP address"),
        (
            (*LISTEN, "--secondary", "ns3.zone.example=198.51.100.53"),
            "is not a nameserver of zone.example (ns1.z",
        ),
        ((*LISTEN, *(2 * ("--secondary", "ns2.zone.example=198.51.100.53"))), "is given twice"),
        ((*LISTEN, "--directory", "knot"), "Give an absolute path"),
        ((*LISTEN, "--directory", "/srv/a;b"), "Give an absolute path"),
    ],
)
def test_invalid_options_are_refused(database: str, words: tuple[str, ...], sentence: str) -> None:
    printed = run(database, "zone", "config", "zone.example", "--server", "knot", *words, expect=1)
    assert sentence in printed


def test_a_key_name_is_one_label() -> None:
    assert key_name("zone.example") == "sublet-zone-example"
    zones = [*(f"{'a' * 60}.{end}.example" for end in "bc"), "a.b-c", "a-b.c", "a.b.c"]
    assert len({key_name(each) for each in zones}) == len(zones)
    assert all(len(f"{key_name(each)}-transfer") <= 63 for each in zones)


@pytest.mark.sqlite_only
def test_a_change_of_the_apex_tells_that_the_primary_needs_it_too(database: str) -> None:
    """The TTL of negative answers is in the SOA record, which Sublet doesn't write on a primary."""
    change = ("domain", "edit", "zone.example", "--negative-ttl-seconds")
    assert "primary" not in run(database, *change, "60")
    with closing(sqlite3.connect(database.removeprefix("sqlite:///"))) as connection, connection:
        connection.execute("UPDATE platform_domains SET \"primary\" = 'main'")
    said = run(database, *change, "61")
    assert "Make the change there too: --negative-ttl-seconds." in " ".join(said.split())
