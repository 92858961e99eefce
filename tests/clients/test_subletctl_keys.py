"""`subletctl keys` against the real service: keys that nsupdate can use, limited unless it is asked
otherwise, and revoked.
"""

from collections.abc import Iterator
from typing import Any

import dns.query
import dns.rcode
import dns.tsig
import dns.update
import pytest

from support.error_triggers import new_user, unused_name
from support.free_ports import free_port
from support.open_registry import opened
from support.running_service import Registrant, RunningService
from support.subletctl import Run, as_json, subletctl


@pytest.fixture(scope="module")
def shop(tmp_path_factory: pytest.TempPathFactory) -> Iterator[RunningService]:
    folder = tmp_path_factory.mktemp("keys")
    (folder / "key").write_text("0123456789abcdef" * 2)
    listen = f"127.0.0.1:{free_port()}"
    with opened(folder, update_key_file=str(folder / "key"), update_listen=listen) as service:
        yield service


@pytest.fixture(scope="module")
def who(shop: RunningService) -> Registrant:
    return new_user(shop)


@pytest.fixture
def run(shop: RunningService, who: Registrant, monkeypatch: pytest.MonkeyPatch) -> Run:
    return subletctl(shop, who, monkeypatch)


def add(key: dict[str, Any], fqdn: str, owner: str) -> dns.rcode.Rcode:
    """Add a TXT record with a key."""
    ring = dns.tsig.Key(key["key_name"], key["secret"], key["algorithm"])
    message = dns.update.UpdateMessage(fqdn, keyring=ring)
    message.add(f"{owner}.{fqdn}.", 60, "TXT", "x")
    host, _, port = key["server"].rpartition(":")
    return dns.query.tcp(message, host, port=int(port), timeout=60).rcode()


def test_keys_are_created_listed_and_removed(run: Run, shop: RunningService, who: Registrant) -> None:
    fqdn = unused_name("records.test")
    shop.register(who, fqdn)
    limited = as_json(run("keys", "create", fqdn, "--for", "certbot", "--json", "all"))
    assert limited["record_names"] == ["_acme-challenge", "_acme-challenge.*"]
    assert (add(limited, fqdn, "_acme-challenge"), add(limited, fqdn, "www")) == (0, dns.rcode.REFUSED)
    full = as_json(run("keys", "create", fqdn, "--all-records", "--expires-in-days", "5", "--json", "all"))
    assert (full["record_names"], add(full, fqdn, "www")) == (None, dns.rcode.NOERROR)
    one = as_json(run("keys", "create", fqdn, "--only-record", "www", "--json", "record_names"))
    assert one["record_names"] == ["www"]
    assert len(run("keys", "create", fqdn, "--quiet").stdout.strip()) == 44
    listed = as_json(run("keys", "list", fqdn.upper(), "--json", "all"))
    assert [each["id"] for each in listed][-2:] == [full["id"], limited["id"]]
    assert limited["secret"] not in str(listed)
    run("keys", "remove", fqdn, str(limited["id"]), exit_code=1)
    run("keys", "remove", fqdn, str(limited["id"]), "--yes")
    refused = run("keys", "remove", fqdn, "999999", "--yes", exit_code=1)
    assert f"subletctl keys list {fqdn}" in refused.stderr
    assert limited["id"] not in [each["id"] for each in as_json(run("keys", "list", fqdn, "--json", "id"))]
    with pytest.raises(dns.tsig.PeerBadKey):
        add(limited, fqdn, "_acme-challenge")
