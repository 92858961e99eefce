"""Children on Knot that sign their zones and roll their keys on their own, below a platform domain on a signed primary."""

import subprocess
import threading
import time
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any, Self

import dns.dnssec
import dns.exception
import dns.flags
import dns.message
import dns.query
import dns.rcode

from sublet.dns.types import DsRecord
from support.name_server_programs import run_tool
from support.name_servers import READY_SECONDS, find_program
from support.running_service import Registrant, RunningService
from support.serve_process import wait_until


@dataclass(slots=True)
class KnotChild:
    """A zone on a Knot of its own, at port 53 of an address. `parent` is the server that Knot asks for the DS records."""

    folder: Path
    zone: str
    address: str
    parent: tuple[str, int]
    policy: dict[str, str] = field(default_factory=dict)
    extra: tuple[str, ...] = ()
    process: "subprocess.Popen[bytes] | None" = None

    def configure(self) -> None:
        """Write the configuration; the zone file only at first."""
        self.folder.mkdir(parents=True, exist_ok=True)
        host, port = self.parent
        policy = {
            "algorithm": "ecdsap256sha256",
            "single-type-signing": "off",
            "ksk-lifetime": "0",
            "zsk-lifetime": "0",
            "dnskey-ttl": "1s",
            "zone-max-ttl": "1s",
            "propagation-delay": "1s",
            "rrsig-lifetime": "4h",
            "rrsig-refresh": "10m",
            "cds-cdnskey-publish": "always",
            "ksk-submission": "parent",
            **self.policy,
        }
        lines = [
            f'server:\n  listen: {self.address}@53\n  rundir: "{self.folder}"\n  udp-workers: 1\n  tcp-workers: 1',
            f'database:\n  storage: "{self.folder}"',
            f'control:\n  listen: "{self.folder}/k"',
            f"remote:\n  - id: parent\n    address: {host}@{port}",
            "submission:\n  - id: parent\n    parent: parent\n    check-interval: 1s",
            "policy:\n  - id: child",
            *(f"    {name}: {value}" for name, value in policy.items()),
            f'zone:\n  - domain: {self.zone}\n    file: "{self.folder}/zone"',
            "    zonefile-sync: -1\n    zonefile-load: difference-no-serial\n    journal-content: all",
            "    dnssec-signing: on\n    dnssec-policy: child",
        ]
        (self.folder / "conf").write_text("\n".join(lines) + "\n", encoding="utf-8")
        if not (self.folder / "zone").exists():
            (self.folder / "zone").write_text(
                f"$ORIGIN {self.zone}.\n$TTL 1\n@ SOA ns1 hostmaster 1 60 60 3600 1\n@ NS ns1\nns1 A {self.address}\nwww A 192.0.2.1\n"
                + "".join(f"{line}\n" for line in self.extra),
                encoding="utf-8",
            )

    def control(self, *words: str) -> str:
        """Run knotc."""
        return run_tool(["knotc", "-c", str(self.folder / "conf"), *words], None, self.folder)

    def change_policy(self, **policy: str) -> None:
        """Change the policy of a running server."""
        self.policy |= {name.replace("_", "-"): value for name, value in policy.items()}
        self.configure()
        self.control("reload")

    def ds_records(self) -> set[DsRecord]:
        """Return the DS records that it asks for now."""
        found = set()
        for rrset in ask(self.address, self.zone, "CDS").answer:
            found |= {
                DsRecord(each.key_tag, int(each.algorithm), int(each.digest_type), each.digest.hex())
                for each in rrset
            }
        return found

    def key_tags(self, kind: str) -> set[int]:
        """Return the tags of the keys that the zone has: `ksk` or `zsk`."""
        flags = {"ksk": 257, "zsk": 256}[kind]
        answer = ask(self.address, self.zone, "DNSKEY").answer
        return {dns.dnssec.key_id(each) for rrset in answer for each in rrset if each.flags == flags}


@contextmanager
def knot_child_running(child: KnotChild) -> Iterator[KnotChild]:
    """Run it, wait until it signs, and stop it at the end."""
    child.configure()
    with (child.folder / "log").open("wb") as log:
        process = subprocess.Popen(
            [find_program("knotd") or "knotd", "-c", str(child.folder / "conf")], stdout=log, stderr=log
        )

    def is_ready() -> bool:
        assert process.poll() is None, (child.folder / "log").read_text()
        return bool(_answered(child))

    try:
        wait_until(is_ready, READY_SECONDS)
        yield child
    finally:
        process.kill()
        process.wait(20)


def _answered(child: KnotChild) -> set[DsRecord]:
    try:
        return child.ds_records()
    except (dns.exception.DNSException, OSError):
        return set()


def ask(address: str, name: str, rdtype: str, port: int = 53) -> dns.message.Message:
    """Ask an authoritative server over TCP."""
    query = dns.message.make_query(name, rdtype)
    query.flags &= ~dns.flags.RD
    return dns.query.tcp(query, address, 5, port)


class Watcher:
    """Asks a validating resolver for a name all the time, and remembers each answer: the code, and whether it was secure."""

    def __init__(self, resolver: tuple[str, int], name: str, seconds: float = 0.5) -> None:
        self._resolver = resolver
        self._name = name
        self._seconds = seconds
        self._stop = threading.Event()
        self._thread = threading.Thread(target=self._run)
        self.answers: list[tuple[float, str, bool]] = []

    def __enter__(self) -> Self:
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._stop.set()
        self._thread.join()

    def _run(self) -> None:
        while not self._stop.is_set():
            query = dns.message.make_query(self._name, "A", want_dnssec=True)
            try:
                answer = dns.query.udp(query, self._resolver[0], 10, self._resolver[1])
                got = dns.rcode.to_text(answer.rcode()), bool(answer.flags & dns.flags.AD)
            except dns.exception.DNSException as error:
                got = type(error).__name__, False
            self.answers.append((time.time(), *got))
            self._stop.wait(self._seconds)

    def faults(self, *, secure: bool) -> list[tuple[float, str, bool]]:
        """Return the answers that weren't NOERROR, or not secure."""
        assert self.answers
        return [each for each in self.answers if each[1] != "NOERROR" or (secure and not each[2])]


@dataclass(slots=True)
class FollowedChild:
    """A name of a service, whose DS records follow the child."""

    service: RunningService
    who: Registrant
    fqdn: str

    def register(
        self, nameservers: Sequence[str], ds_records: Collection[DsRecord], glue: Mapping[str, str] = {}
    ) -> None:
        """Register it with these nameservers, and the IPv4 addresses of those below it."""
        self.service.register(
            self.who,
            self.fqdn,
            nameservers=list(nameservers),
            glue=[{"host": host, "ipv4": address} for host, address in glue.items()],
            ds_records=[asdict(each) for each in ds_records],
        )

    def check(self) -> dict[str, Any]:
        """Have the operator's command check it; returns the answer, empty if the last change isn't published yet."""
        return dict(self.service.operator("subdomain", "check-ds", self.fqdn, expect=None) or {})

    def show(self) -> dict[str, Any]:
        """Return its automatic DS, as its user sees it."""
        answer = self.service.call(self.who, "GET", f"/subdomains/{self.fqdn}/automatic-ds")
        return dict(answer.json()["automatic_ds"])

    def ds_records(self) -> set[DsRecord]:
        """Return its DS records."""
        names = ("key_tag", "algorithm", "digest_type", "digest")
        return {DsRecord(**{name: each[name] for name in names}) for each in self.show()["ds_records"]}

    def wait_for(self, is_done: Callable[[set[DsRecord]], bool]) -> None:
        """Check it until its DS records are so."""

        def is_so() -> bool:
            self.check()
            return is_done(self.ds_records())

        wait_until(is_so, 60)

    def wait_for_new_ds(self, before: Collection[DsRecord]) -> None:
        """Check it until it has DS records, and none of those before."""
        self.wait_for(lambda ds_records: bool(ds_records) and not ds_records & set(before))

    def timeline(self, event: str) -> list[dict[str, Any]]:
        """Return the past events of a kind."""
        answer = self.service.call(self.who, "GET", f"/subdomains/{self.fqdn}/timeline").json()
        return [each for each in answer["timeline"] if each["event"] == event and each["past"]]
