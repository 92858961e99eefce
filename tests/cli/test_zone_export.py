"""`sublet zone export`: other programs accept the file, a name server answers from it as the built-in one
does, and it can be adopted.
"""

import json
import re
import subprocess
from collections.abc import Iterable
from itertools import product
from pathlib import Path

import dns.message
import pytest
from typer.testing import CliRunner

from sublet.cli.main import app
from sublet.cli.zone import as_line
from sublet.db import Tx
from sublet.dns.answer import answer
from sublet.dns.names import is_at_or_below
from sublet.dns.query import read_query
from sublet.dns.types import DsRecord, GlueEntry, Record
from sublet.platform_domains import zone_store
from sublet.platform_domains.platform_domain import add_platform_domain, find_platform_domain
from sublet.primaries.update import fence_name
from sublet.subdomains.delete import delete
from sublet.subdomains.store import list_unreleased_names
from sublet.subdomains.suspend import suspend
from sublet.subdomains.view_zone import export_zone, view_zones
from support.operator_registry import empty_registry, small_registry
from support.programs import find_program
from support.registry import OPERATOR, Registry
from support.service_on_primary import ZONE, service_on

ADOPTED = """
$TTL 600
@ IN SOA ns1 hostmaster 7 3600 900 1209600 300
@ NS ns1
@ NS ns2
@ MX 10 mail
ns1 A 192.0.2.1
ns2 AAAA 2001:db8::2
mail A 192.0.2.25
*.wild TXT "two words" "a \\"quote\\" and a \\\\"
_sip._tcp SRV 0 5 5060 mail
old NS ns.old
ns.old A 192.0.2.9
ns1.below A 192.0.2.77
@ CAA 0 issue "ca.example.net"
_dns SVCB 1 dns.example.net. alpn=h2 dohpath=/q{?dns}
@ HTTPS 1 . alpn=h2 ohttp
"""
ADOPTING = "adopted.example"
ADDRESS = "192.0.2.53"
CHECKERS = (("named-checkzone",), ("kzonecheck", "-o"), ("nsd-checkzone",))


def fill(registry: Registry) -> None:
    """Adopt a zone, register names with glue, DS and an internationalized label, and names that are not in
    the DNS.
    """
    registry.add_user("bea", free_quota=100)
    for domain, text in ((ADOPTING, ADOPTED), (f"below.{ADOPTING}", None)):
        registry.write(
            add_platform_domain, OPERATOR, domain, {}, names_held=list_unreleased_names, zone_file=text
        )
    provider = ("ns1.provider.example", "ns2.provider.example")
    registry.register(f"bücher.{ADOPTING}", "bea", nameservers=provider)
    glue = (GlueEntry(f"ns1.glued.{ADOPTING}", "9.9.9.9", "2620:fe::fe"),)
    ds_records = (DsRecord(12345, 13, 2, "ab" * 32),)
    names = (f"ns1.glued.{ADOPTING}", *provider)
    registry.register(f"glued.{ADOPTING}", "bea", nameservers=names, glue=glue, ds_records=ds_records)
    registry.register(f"borrowed.{ADOPTING}", "bea", nameservers=(f"mail.{ADOPTING}", *provider))
    registry.register(f"shop.{ADOPTING}", "bea", nameservers=provider)
    registry.register(f"bare.{ADOPTING}", "bea")
    gone = registry.register(f"gone.{ADOPTING}", "bea", nameservers=provider)
    registry.write(delete, registry.actor("bea"), str(gone.id))
    held = registry.register(f"held.{ADOPTING}", "bea", nameservers=provider)
    registry.write(suspend, OPERATOR, str(held.id), "because")
    hidden = Record(f"hidden.shop.{ADOPTING}", "TXT", 300, '"a delegation is above"')
    registry.write(lambda tx: zone_store.insert_records(tx, find_platform_domain(tx, ADOPTING).id, [hidden]))


def export(tx: Tx) -> str:
    """Return the file as the command writes it."""
    return "".join(as_line(each) for each in export_zone(tx, find_platform_domain(tx, ADOPTING), [ADDRESS]))


def check(zone: str, text: str, folder: Path) -> None:
    """Have each of the three programs check a zone file."""
    file = folder / "zone"
    file.write_text(text, encoding="utf-8")
    for program, *options in CHECKERS:
        command = [find_program(program), *options, zone, str(file)]
        done = subprocess.run(command, capture_output=True, text=True, check=False)
        assert done.returncode == 0, (program, done.stdout, done.stderr)


def responses(tx: Tx, names: Iterable[str]) -> dict[tuple[str, str], str]:
    """Return the built-in name server's responses for each name and several types, without the serial."""
    found = {}
    for name, rdtype in product(names, ("NS", "DS", "A", "AAAA", "TXT", "MX", "SRV", "CAA")):
        query = read_query(dns.message.make_query(name, rdtype, want_dnssec=True, id=1).to_wire())
        assert query is not None
        said = dns.message.from_wire(answer(query, view_zones(tx, [name], [ADDRESS]), over_tcp=True).wire)
        found[name, rdtype] = re.sub(r"hostmaster\S* \d+ ", "", said.to_text())
    return found


def test_an_exported_file_is_accepted_and_gives_equal_answers_when_adopted(
    registry: Registry, tmp_path: Path
) -> None:
    fill(registry)
    text = registry.read(export)
    check(ADOPTING, text, tmp_path)
    assert f"xn--bcher-kva.{ADOPTING}. 3600 IN NS ns1.provider.example." in text
    assert f"below.{ADOPTING}. 3600 IN NS ns1.below.{ADOPTING}." in text
    for label in ("hidden.shop", "gone", "held", "bare"):
        assert f"{label}.{ADOPTING}." not in text
    other = empty_registry(tmp_path)
    other.do(add_platform_domain, ADOPTING, {}, names_held=list_unreleased_names, zone_file=text)
    again = other.read(export)
    assert sorted(again.splitlines()[1:]) == sorted(text.splitlines()[1:])
    owners = {line.split(". ")[0] for line in text.splitlines()}
    labels = ("x", "bare", "gone", "held", "hidden.shop", "x.shop", "any.wild", "x.old", "ns1.glued", "tcp")
    names = owners | {f"{label}.{ADOPTING}" for label in labels}
    names = {each for each in names if not is_at_or_below(each, f"below.{ADOPTING}")}
    assert registry.read(responses, names) == other.read(responses, names)


def test_the_command_prints_only_the_file(tmp_path: Path) -> None:
    other = small_registry(tmp_path)
    environment = {"SUBLET_DATABASE_URL": other.url, "SUBLET_DNS_ADDRESSES": ADDRESS}
    follows = ["domain", "edit", ZONE, "--automatic-ds", "all", "--csync"]
    assert CliRunner().invoke(app, follows, env=environment).exit_code == 0
    result = CliRunner().invoke(app, ["zone", "export", ZONE], env=environment)
    assert result.exit_code == 0, result.output
    assert f"alpha.{ZONE}. 3600 IN NS ns1.example.org.\n" in result.stdout
    assert "beta" not in result.stdout
    assert result.stdout.count(f"*._dsync.{ZONE}. 3600 IN TYPE66") == 2
    check(ZONE, result.stdout, tmp_path)
    as_json = CliRunner().invoke(app, ["zone", "export", ZONE, "--json"], env=environment)
    assert json.loads(as_json.stdout) == {"zone": ZONE, "zone_file": result.stdout}


@pytest.mark.slow
def test_a_signed_zone_on_a_primary_is_transferred_and_printed_unsigned(tmp_path: Path) -> None:
    with service_on("knot", tmp_path) as on:
        token = on.service.add_user("ada@example.org")
        name = f"blog.{ZONE}"
        on.service.register(token, name, nameservers=["ns1.provider.example"])
        on.wait_until_active(token, name)
        text = on.service.operator("zone", "export", ZONE)["zone_file"]
    check(ZONE, text, tmp_path)
    assert f"{name}. 3600 IN NS ns1.provider.example.\n" in text
    assert fence_name(ZONE) not in text
