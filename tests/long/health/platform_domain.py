"""What Zonemaster and dnsviz say of a platform domain's zone, signed by Knot, with a secondary on NSD, below
a root and a TLD.
"""

import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import dns.dnssec
import dns.name
import dns.rdata

from long.health.judges import run_in_network
from long.health.zonemaster import LEVELS, NAME_SECONDS
from long.scenario import SOAK, SQLITE, Outcome, Scenario, Trial
from sublet.dns.types import Record, Secondary
from support.dns_world import ROOT_ADDRESS, Server, World, Zone, ZoneKey, world_running
from support.name_servers import NameServerProcess, primary, secondary, zone_apex
from support.running_service import running_service
from support.serve_process import wait_until
from support.service_on_primary import primary_settings, settings_file

DOMAIN, TLD = "reg.test", "192.5.6.30"
PRIMARY, SECONDARY = ("8.8.1.1", 53), ("9.8.1.1", 53)
ADDRESSES = (ROOT_ADDRESS, TLD, PRIMARY[0], SECONDARY[0])
NAMES = 20


def run(trial: Trial) -> Outcome:
    """Judge in a network of its own."""
    found = run_in_network(ADDRESSES, "long.health.platform_domain", trial)
    assert found["errors"] == [], found
    return Outcome("\n".join(found["told"]))


PLATFORM_DOMAIN = Scenario(
    "platform-domain",
    "A platform domain on a signed Knot with a secondary on NSD: neither Zonemaster nor dnsviz may report "
    "an error. Counts names in it.",
    run,
    {SOAK: {SQLITE: NAMES}},
)


def judge(folder: Path, count: int) -> dict[str, list[str]]:
    """Return the errors, and what else both judges say."""
    hosts = (f"ns1.{DOMAIN}", f"ns2.{DOMAIN}")
    addresses = tuple(
        Record(host, "A", 3600, each[0]) for host, each in zip(hosts, (PRIMARY, SECONDARY), strict=True)
    )
    apex = zone_apex(DOMAIN, nameservers=hosts, addresses=addresses)
    watched = [Secondary(hosts[1], *SECONDARY)]
    with (
        primary("knot", folder / "knot", DOMAIN, apex=apex, secondaries=watched, address=PRIMARY) as server,
        secondary("nsd", folder / "nsd", of=server, address=SECONDARY) as other,
    ):
        _register(folder, server, hosts, count)
        wait_until(lambda: bool(_serial(server)) and _serial(other) == _serial(server), 60)
        key = ZoneKey.new()
        with world_running(folder / "world", _world(key, server)):
            zonemaster, dnsviz = _ask_zonemaster(folder), _ask_dnsviz(folder)
    errors = [each for each in zonemaster if each.startswith(LEVELS[:2])]
    told = [f"Zonemaster: {each}" for each in zonemaster] + [f"dnsviz error: {each}" for each in dnsviz]
    told.append(f"Zonemaster: {len(errors)} errors; dnsviz: {len(dnsviz)} errors; {count} names in the zone")
    return {"errors": [*errors, *dnsviz], "told": told}


def _serial(server: NameServerProcess) -> list[str]:
    try:
        answer = server.ask(DOMAIN, "SOA").answer
    except OSError:
        return []
    return [str(each[0].serial) for each in answer if each.rdtype.name == "SOA"]


def _register(folder: Path, server: NameServerProcess, hosts: tuple[str, ...], count: int) -> None:
    """Have a service publish names with glue and DS records into the zone."""
    section = primary_settings(folder, server)
    with running_service(
        f"sqlite:///{folder}/registry.db", primaries=(section,), free_quota=count
    ) as service:
        service.environment["SUBLET_CONFIG"] = str(settings_file(folder, [section]))
        options = [word for host in hosts for word in ("--apex-nameserver", host)]
        service.add_domain(DOMAIN, "--primary", section.name, "--dnssec-signed", *options)
        ada = service.add_user()
        key = ZoneKey.new()
        for number in range(count):
            fqdn = f"n{number}.{DOMAIN}"
            ds = key.ds(fqdn)
            service.register(
                ada,
                fqdn,
                nameservers=[f"ns.{fqdn}", "ns.elsewhere.test"],
                glue=[{"host": f"ns.{fqdn}", "ipv4": "9.9.9.9"}],
                ds_records=[f"{ds.key_tag} {ds.algorithm} {ds.digest_type} {ds.digest}"],
            )

        def is_published() -> bool:
            names = service.call(ada, "GET", "/subdomains").json()["subdomains"]
            return {each["status"] for each in names} == {"active"}

        wait_until(is_published, 60)


def _world(key: ZoneKey, server: NameServerProcess) -> World:
    tld = ZoneKey.new()
    made = [
        dns.dnssec.make_ds(dns.name.from_text(DOMAIN), rdata, "SHA256")
        for rdata in (
            dns.rdata.from_text("IN", "DNSKEY", line.split(" DNSKEY ")[1])
            for line in server.trust_anchor().splitlines()
        )
        if rdata.flags & 1  # type: ignore[attr-defined] # a DNSKEY record: its flag SEP
    ]
    below = [f"{DOMAIN}. NS ns{number}.{DOMAIN}." for number in (1, 2)]
    below += [f"ns1.{DOMAIN}. A {PRIMARY[0]}", f"ns2.{DOMAIN}. A {SECONDARY[0]}"]
    below += [f"{DOMAIN}. DS {each}" for each in made]
    ds = tld.ds("test")
    root = Zone(
        ".",
        (
            "@ NS root",
            f"root A {ROOT_ADDRESS}",
            "test NS ns.test",
            f"ns.test A {TLD}",
            f"test DS {ds.key_tag} {ds.algorithm} {ds.digest_type} {ds.digest}",
        ),
        key,
    )
    zone = Zone("test", ("@ NS ns", f"ns A {TLD}", *below), tld)
    return World((Server("knot", (ROOT_ADDRESS,), (root,)), Server("knot", (TLD,), (zone,))))


def _ask_zonemaster(folder: Path) -> list[str]:
    """Return what Zonemaster says from warnings up: level, tag and arguments."""
    hints = folder / "hints"
    hints.write_text(f". 3600 IN NS root.\nroot. 3600 IN A {ROOT_ADDRESS}\n", encoding="utf-8")
    words = [
        "zonemaster-cli",
        "--hints",
        str(hints),
        "--json",
        "--raw",
        "--level",
        "WARNING",
        "--no-progress",
    ]
    found = json.loads(_run([*words, "--no-ipv6", DOMAIN]))
    return [f"{each['level']} {each['tag']} {json.dumps(each.get('args', {}))}" for each in found]


def _ask_dnsviz(folder: Path) -> list[str]:
    """Return the errors that dnsviz reports, as paths into its report.

    It gets no trust anchor: with one, some versions want to draw.
    """
    probed = folder / "probed.json"
    probe = [
        "dnsviz",
        "probe",
        "-A",
        "-4",
        "-a",
        ".",
        "-x",
        f".:root={ROOT_ADDRESS}",
        "-o",
        str(probed),
        DOMAIN,
    ]
    _run(probe)
    grok = ["dnsviz", "grok", "-l", "error", "-r", str(probed), "-c"]
    report = json.loads(_run(grok) or "{}")
    return list(_errors(report.get(f"{DOMAIN}.", {}), DOMAIN))


def _run(words: list[str]) -> str:
    """Run a judge with the system's Python modules, not those of the tests."""
    environment = {name: value for name, value in os.environ.items() if name != "PYTHONPATH"}
    done = subprocess.run(
        words, capture_output=True, text=True, timeout=NAME_SECONDS, check=False, env=environment
    )
    assert done.returncode == 0, done.stderr
    return done.stdout


def _errors(part: Any, path: str) -> list[str]:
    if isinstance(part, dict):
        own = [f"{path}: {json.dumps(each)}" for each in part.get("error", ())]
        return own + [
            found
            for name, each in part.items()
            if name != "error"
            for found in _errors(each, f"{path}/{name}")
        ]
    if isinstance(part, list):
        return [found for number, each in enumerate(part) for found in _errors(each, f"{path}/{number}")]
    return []


if __name__ == "__main__":
    print(json.dumps(judge(Path(sys.argv[1]), int(sys.argv[3]))))
