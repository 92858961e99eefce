"""A user with many names is taken down by one command while the service runs, and comes back as it was."""

from pathlib import Path

import dns.message
import dns.query
import dns.rcode
import dns.rdatatype

from sublet.audit import Actor
from sublet.db import Tx
from sublet.subdomains.model import Register
from sublet.subdomains.register import register
from support.repetitions import share
from support.running_service import Registrant, RunningService, registry_address
from support.serve_process import serve_process
from support.waiting import wait_until

NAMES = share(50, whole=500)
ZONE = "example.test"
NAMESERVERS = ("ns1.provider.example", "ns2.provider.example")


def _register(service: RunningService, who: Registrant, fqdns: list[str]) -> None:
    """Register names for a user, all in one transaction: the disk is not what this is about."""
    actor = Actor("user", user_id=who.id)

    def run(tx: Tx) -> None:
        for fqdn in fqdns:
            register(tx, actor, Register(fqdn=fqdn, nameservers=NAMESERVERS), free_quota=NAMES)

    service.write(run)


class Watched:
    """Names that are to be in the zone, or out of it: those for which the name server doesn't say so yet."""

    def __init__(self, service: RunningService, names: list[str]) -> None:
        self._service, self._names = service, names
        self._left: list[str] = []

    def come(self) -> None:
        """Wait until the name server refers to the nameservers of all."""
        self._wait(delegated=True)

    def go(self) -> None:
        """Wait until the name server knows none."""
        self._wait(delegated=False)

    def _wait(self, *, delegated: bool) -> None:
        self._left = list(self._names)
        wait_until(lambda: self._all_are(delegated))

    def _all_are(self, delegated: bool) -> bool:
        while self._left:
            if self._is_delegated(self._left[-1]) is not delegated:
                return False
            self._left.pop()
        return True

    def _is_delegated(self, name: str) -> bool:
        asked = dns.message.make_query(name, "NS", flags=0)
        host, port = self._service.dns
        answer = dns.query.udp(asked, host, timeout=60, port=port)
        served = {
            record.target.to_text(omit_final_dot=True)
            for rrset in answer.authority
            if rrset.rdtype == dns.rdatatype.NS
            for record in rrset
        }
        assert served == set(NAMESERVERS) or answer.rcode() == dns.rcode.NXDOMAIN, answer
        return served == set(NAMESERVERS)


def test_one_command_removes_all_names_from_the_zone_and_one_restores_them(tmp_path: Path) -> None:
    with serve_process(registry_address(tmp_path), tmp_path) as serving:
        service = serving.service
        service.add_domain(ZONE)
        mallory = service.add_user("mallory@example.org", free_quota=str(NAMES))
        ada = service.add_user("ada@example.org")
        names = [f"name{number:03}.{ZONE}" for number in range(NAMES)]
        _register(service, mallory, names)
        _register(service, ada, [f"ada.{ZONE}"])
        serving.start()
        watched, others = Watched(service, names[1:]), Watched(service, [f"ada.{ZONE}"])
        Watched(service, names).come()
        service.operator("subdomain", "suspend", names[0], "--reason", "looked into before")

        done = service.operator("user", "suspend", mallory.email, "--with-names", "--reason", "phishing")
        assert done["names"] == names[1:]
        watched.go()
        others.come()
        refused = service.call(mallory, "POST", "/subdomains", {"fqdn": f"again.{ZONE}"})
        assert refused.json()["error"] == "account_suspended"
        kept = service.operator("user", "evidence", mallory.email)
        assert {each["reason"] for each in kept if each["action"] == "user.suspend"} == {"phishing"}
        published = [
            each for each in kept if (each["before"] or {}).get("provisioning_status") == "published"
        ]
        assert [each["before"]["fqdn"] for each in published] == names
        assert all(each["before"]["nameservers"] == list(NAMESERVERS) for each in published)

        assert service.operator("user", "unsuspend", mallory.email)["names"] == names[1:]
        watched.come()
        Watched(service, names[:1]).go()
        wait_until(lambda: service.doctor() == [])
        assert serving.stop() == 0
