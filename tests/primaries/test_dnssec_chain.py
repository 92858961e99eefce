"""A complete chain of trust: the platform zone's key is the resolver's trust anchor, and a registered DS
record leads to a child zone.
"""

from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from pathlib import Path

import dns.dnssec
import pytest

from sublet.dns.types import Record
from support.name_servers import KINDS, NameServerProcess, primary, validate, zone_apex
from support.network_namespace import runs_outside
from support.repetitions import share
from support.running_service import Registrant
from support.service_on_primary import ServiceOn, service_on
from support.waiting import wait_until

pytestmark = pytest.mark.slow
IPV4, IPV6 = "9.9.9.9", "2620:fe::9"
SECURE, INSECURE = ("NOERROR", True), ("NOERROR", False)
BOGUS = ("SERVFAIL", False)
DENIED = ("NXDOMAIN", True)


@dataclass(frozen=True, slots=True)
class Chain:
    """A service on a signed zone, a signed child zone on its own server, and their common registrant."""

    on: ServiceOn
    child: NameServerProcess
    ada: Registrant
    folder: Path
    is_led_by_glue: bool = False
    """True if the resolver can find the child only by its glue."""

    def members(self, *ds_records: object) -> dict[str, object]:
        """Return the members of the child owner's request: its nameserver with its address, and these DS
        records.
        """
        host = f"ns1.{self.child.zone}"
        glue = {"host": host, "ipv4": IPV4}
        if ":" in self.child.address:
            glue = {"host": host, "ipv6": IPV6}
        return {"nameservers": [host], "glue": [glue], "ds_records": list(ds_records)}

    def change(self, *ds_records: object) -> None:
        """Have these DS records published."""
        path = f"/subdomains/{self.child.zone}"
        answer = self.on.service.call(self.ada, "PUT", f"{path}/nameservers", self.members(*ds_records))
        assert answer.status_code == 200, answer.text
        self.on.wait_until_active(self.ada, self.child.zone)

    def seen(self, name: str = "", rdtype: str = "SOA") -> tuple[str, bool]:
        """Return the answer of a validating resolver with an empty cache for a name, by default the child's
        apex: code and AD flag.
        """
        parent = self.on.primary
        stubs = {parent.zone: (parent.address, parent.port)}
        if not self.is_led_by_glue:
            stubs[self.child.zone] = (self.child.address, self.child.port)
        question = (name or self.child.zone, rdtype)
        return validate(self.folder / "unbound", stubs, [parent.trust_anchor()], question)[0]

    def key(self) -> dict[str, object]:
        """Return the child's DNSKEY as an object of the API."""
        key = self.child.ask(self.child.zone, "DNSKEY").answer[0][0]
        flags, protocol, algorithm, public_key = key.to_text().split(maxsplit=3)
        return {
            "flags": int(flags),
            "protocol": int(protocol),
            "algorithm": int(algorithm),
            "public_key": public_key,
        }

    def ds_text(self, digest: str) -> str:
        """Return the child's DS record as another implementation computes it, as text."""
        key = self.child.ask(self.child.zone, "DNSKEY").answer[0][0]
        return str(dns.dnssec.make_ds(f"{self.child.zone}.", key, digest).to_text())

    def wrong_ds(self) -> str:
        """Return a DS of a key that the child does not have."""
        tag, algorithm, digest_type, digest = self.ds_text("SHA256").split()
        return f"{tag} {algorithm} {digest_type} {digest[::-1]}"


@contextmanager
def chain(
    kind: str, child_kind: str, folder: Path, address: tuple[str, int] | None = None
) -> Iterator[Chain]:
    """A chain of these two servers. If the child has an `address`, its glue points there."""
    folder.mkdir(exist_ok=True)
    child_zone = f"{child_kind}.example.test"
    apex = None
    if address is not None:
        family = "AAAA" if ":" in address[0] else "A"
        host = Record(f"ns1.{child_zone}", family, 3600, address[0])
        apex = zone_apex(child_zone, addresses=(host,))
    with ExitStack() as stack:
        on = stack.enter_context(service_on(kind, folder, publish_wait_ms=60_000))
        child = stack.enter_context(
            primary(child_kind, folder / "child", child_zone, apex=apex, address=address)
        )
        yield Chain(on, child, on.service.add_user(), folder, is_led_by_glue=address is not None)


@pytest.mark.parametrize("kind", share(("bind",), whole=KINDS))
def test_the_ds_record_decides_whether_the_child_is_secure(kind: str, tmp_path: Path) -> None:
    child_kind = KINDS[KINDS.index(kind) - 1]
    with chain(kind, child_kind, tmp_path) as whole:
        assert whole.seen(whole.child.zone, "DS") == DENIED
        whole.on.service.register(whole.ada, whole.child.zone, **whole.members(whole.key()))
        assert whole.seen() == SECURE
        whole.change(whole.wrong_ds())
        assert whole.seen() == BOGUS
        whole.change()
        assert whole.seen() == INSECURE
        whole.change(whole.child.trust_anchor())  # the DNSKEY as it stands in a zone file
        assert whole.seen() == SECURE
        whole.change(whole.wrong_ds(), whole.ds_text("SHA384"))  # one matching DS record is enough
        assert whole.seen() == SECURE
        whole.change(whole.ds_text("SHA256"))
        assert whole.seen() == SECURE
        whole.on.service.call(whole.ada, "DELETE", f"/subdomains/{whole.child.zone}")
        wait_until(lambda: whole.on.records() == set())
        assert whole.seen(whole.child.zone, "DS") == DENIED
        whole.on.service.call(whole.ada, "POST", f"/subdomains/{whole.child.zone}/restore")
        wait_until(lambda: len(whole.on.records()) == 3)
        assert whole.seen() == SECURE


@pytest.mark.parametrize("kind", share(("powerdns",), whole=KINDS))
def test_a_resolver_finds_the_child_by_its_glue(
    kind: str, request: pytest.FixtureRequest, tmp_path: Path
) -> None:
    """The resolver isn't configured for the child: it follows the parent's glue, to port 53."""
    if runs_outside(request, [f"{IPV4}/32", f"{IPV6}/128"]):
        return
    for address, family in share([(IPV6, "AAAA")], whole=[(IPV6, "AAAA"), (IPV4, "A")]):
        child_kind = "bind" if kind == "knot" else "knot"
        with chain(kind, child_kind, tmp_path / family, (address, 53)) as whole:
            host = f"ns1.{whole.child.zone}"
            whole.on.service.register(whole.ada, whole.child.zone, **whole.members(whole.key()))
            referral = whole.on.primary.ask(host, family)
            glue = [(each.name.to_text(), each[0].to_text()) for each in referral.additional]
            assert glue == [(f"{host}.", address)]
            assert whole.seen(host, family) == SECURE
            whole.change(whole.wrong_ds())
            assert whole.seen(host, family) == BOGUS
            whole.change()
            assert whole.seen(host, family) == INSECURE
