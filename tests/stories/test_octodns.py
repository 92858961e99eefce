"""octodns moves the records of a name in and out through DNS UPDATE and AXFR, unmodified."""

import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
import yaml

from support.free_ports import free_port
from support.running_service import RunningService, registry_address, running_service

pytestmark = [pytest.mark.slow, pytest.mark.whole]
FQDN = "blog.example.test"
RECORDS: dict[str, Any] = {
    "": [
        {"type": "A", "ttl": 300, "values": ["8.8.4.4", "8.8.8.8"]},
        {"type": "AAAA", "ttl": 600, "value": "2606:4700::1"},
        {"type": "CAA", "ttl": 300, "value": {"flags": 0, "tag": "issue", "value": "ca.example"}},
        {"type": "MX", "ttl": 3600, "values": [{"preference": 10, "exchange": "mx1.provider.example."},
                                              {"preference": 20, "exchange": "mx2.provider.example."}]},
        {"type": "TXT", "ttl": 300, "values": ["v=spf1 -all", 'a\\; "b"', "x" * 300]},
    ],
    "*.dev": {"type": "CNAME", "ttl": 300, "value": "provider.example."},
    "_443._tcp.www": {"type": "TLSA", "ttl": 300, "value": {"certificate_usage": 3, "selector": 1,
                      "matching_type": 1, "certificate_association_data": "ab" * 32}},
    "_imaps._tcp": {"type": "SRV", "ttl": 300, "value": {"priority": 0, "weight": 1, "port": 993,
                    "target": "mail.provider.example."}},
    "ssh": {"type": "SSHFP", "ttl": 300, "value": {"algorithm": 4, "fingerprint_type": 2, "fingerprint": "cd" * 32}},  # noqa: E501
    **{f"host{n}": {"type": "A", "ttl": 60 + n, "value": f"8.8.8.{n}"} for n in range(1, 20)},
    **{f"text{n}": {"type": "TXT", "ttl": 60 + n, "value": f"text {n}"} for n in range(1, 13)},
}  # fmt: skip
"""40 RRsets in the form of octodns."""


def octodns(command: str, *words: str) -> str:
    done = subprocess.run(
        [sys.executable, "-m", f"octodns.cmds.{command}", *words],
        capture_output=True, text=True, timeout=300, check=False,
    )  # fmt: skip
    assert done.returncode == 0, done.stdout + done.stderr
    return done.stdout + done.stderr


def write_zone(folder: Path, records: dict[str, Any]) -> None:
    folder.mkdir(exist_ok=True)
    (folder / f"{FQDN}.yaml").write_text(yaml.safe_dump(records))


def configure(folder: Path, key: dict[str, Any]) -> str:
    """Write the configuration, and return its path."""
    host, _, port = key["server"].rpartition(":")
    service = {
        "class": "octodns_bind.Rfc2136Provider", "host": host, "port": int(port), "timeout": 60,
        "key_name": key["update_key"]["key_name"], "key_secret": key["secret"], "key_algorithm": "hmac-sha256",  # noqa: E501
    }  # fmt: skip
    yaml_files = {"class": "octodns.provider.yaml.YamlProvider", "enforce_order": False}
    settings = {
        "providers": {
            "wanted": {**yaml_files, "directory": str(folder / "wanted")},
            "service": service,
        },
        "zones": {f"{FQDN}.": {"sources": ["wanted"], "targets": ["service"]}},
    }
    path = folder / "octodns.yaml"
    path.write_text(yaml.safe_dump(settings))
    return str(path)


def stored(service: RunningService, token: str) -> dict[tuple[str, str], int]:
    found = service.call(token, "GET", f"/subdomains/{FQDN}/records").json()["records"]
    return {(each["name"], each["type"]): each["ttl"] for each in found}


def test_octodns_moves_records_in_and_out(tmp_path: Path) -> None:
    (tmp_path / "key").write_text("0123456789abcdef" * 2)
    listen = f"127.0.0.1:{free_port()}"
    with running_service(
        registry_address(tmp_path), update_key_file=str(tmp_path / "key"), update_listen=listen
    ) as service:
        service.add_domain("example.test", "--records", "on")
        token = service.add_user().token
        service.register(token, FQDN)
        config = configure(
            tmp_path, service.call(token, "POST", f"/subdomains/{FQDN}/update-keys", {}).json()
        )
        write_zone(tmp_path / "wanted", RECORDS)
        octodns("sync", "--config-file", config, "--doit", "--force")
        assert stored(service, token) == {
            (owner or "@", each["type"]): each["ttl"]
            for owner, sets in RECORDS.items()
            for each in (sets if isinstance(sets, list) else [sets])
        }
        assert len(stored(service, token)) == 40
        assert "No changes were planned" in octodns("sync", "--config-file", config)

        octodns("dump", "--config-file", config, "--output-dir", str(tmp_path / "out"), f"{FQDN}.", "service")
        write_zone(tmp_path / "wanted", {})
        octodns("sync", "--config-file", config, "--doit", "--force")
        assert stored(service, token) == {}
        (tmp_path / "out" / f"{FQDN}.yaml").rename(tmp_path / "wanted" / f"{FQDN}.yaml")
        octodns("sync", "--config-file", config, "--doit", "--force")
        write_zone(tmp_path / "wanted", RECORDS)
        assert "No changes were planned" in octodns("sync", "--config-file", config)
        assert service.doctor() == []
