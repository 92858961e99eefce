"""Children on Knot that sign their zones and roll their keys on their own, below a platform domain on a signed primary."""

import subprocess
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path

import dns.exception
import dns.flags
import dns.message
import dns.query
import dns.rcode

from sublet.dns.types import DsRecord
from support.name_server_programs import run_tool
from support.name_servers import READY_SECONDS, find_program
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
            f'zone:\n  - domain: {self.zone}\n    file: "{self.folder}/zone"\n    zonefile-sync: -1\n    zonefile-load: difference-no-serial\n'
            "    journal-content: all\n    dnssec-signing: on\n    dnssec-policy: child",
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

    def __enter__(self) -> "Watcher":
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

    def faults(self) -> list[tuple[float, str, bool]]:
        """Return the answers that weren't NOERROR."""
        return [each for each in self.answers if each[1] != "NOERROR"]
