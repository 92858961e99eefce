"""Child zones on Knot, BIND and PowerDNS whose servers sign them and roll their keys, below a platform domain
on a signed primary.
"""

import secrets
import threading
import time
from base64 import b64encode
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Self

import dns.dnssec
import dns.exception
import dns.flags
import dns.message
import dns.opcode
import dns.query
import dns.rcode
from msgspec.structs import asdict

from sublet.dns.types import DsRecord
from support.dns_program import dns_program
from support.free_ports import free_address
from support.name_server_programs import run_tool
from support.running_service import Registrant, RunningService
from support.waiting import wait_until


@dataclass(slots=True)
class Child:
    """A zone that its server signs, at port 53 of an address.

    The server queries `parent` for the zone's DS records.

    `records` are more lines of the zone, `others` are more addresses of the server (Knot).
    """

    folder: Path
    zone: str
    address: str
    parent: tuple[str, int]
    policy: dict[str, str] = field(default_factory=dict)
    records: tuple[str, ...] = ()
    others: tuple[str, ...] = ()

    def configure(self) -> list[str]:
        """Write the configuration and return the command that runs it."""
        raise NotImplementedError

    def write_zone(self) -> None:
        """Write the zone file, with TTLs of one second."""
        lines = [
            f"$ORIGIN {self.zone}.",
            "$TTL 1",
            "@ SOA ns1 hostmaster 1 60 60 3600 1",
            "@ NS ns1",
            f"ns1 A {self.address}",
            "www A 192.0.2.1",
            *self.records,
        ]
        self.folder.mkdir(parents=True, exist_ok=True)
        (self.folder / "zone").write_text("\n".join(lines) + "\n", encoding="utf-8")

    def ds_records(self) -> set[DsRecord]:
        """Return the DS records that the zone requests now."""
        return _ds_records(ask(self.address, self.zone, "CDS"))

    def key_tags(self, kind: str) -> set[int]:
        """Return the key tags of the zone's `ksk` or `zsk` keys."""
        flags = {"ksk": 257, "zsk": 256}[kind]
        answer = ask(self.address, self.zone, "DNSKEY").answer
        return {dns.dnssec.key_id(each) for rrset in answer for each in rrset if each.flags == flags}


@dataclass(slots=True)
class KnotChild(Child):
    """A zone on its own Knot, which rolls the keys automatically."""

    def configure(self) -> list[str]:
        """Write the configuration and return the command that runs it."""
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
            f"server:\n  listen: [{', '.join(f'{each}@53' for each in (self.address, *self.others))}]",
            f'  rundir: "{self.folder}"\n  udp-workers: 1\n  tcp-workers: 1',
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
        return ["knotd", "-c", str(self.folder / "conf")]

    def control(self, *words: str) -> str:
        """Run knotc."""
        return run_tool(["knotc", "-c", str(self.folder / "conf"), *words], None, self.folder)

    def change_records(self, *records: str) -> None:
        """Change the records of the running server's zone, which gets a new serial."""
        self.records = records
        self.write_zone()
        self.control("-b", "zone-reload", self.zone)

    def change_policy(self, **policy: str) -> None:
        """Change the policy of the running server."""
        self.policy |= {name.replace("_", "-"): value for name, value in policy.items()}
        self.configure()
        self.control("reload")


@dataclass(slots=True)
class BindChild(Child):
    """A zone on its own BIND with a `dnssec-policy`, whose parental agent is the parent's server."""

    def configure(self) -> list[str]:
        """Write the configuration and return the command that runs it."""
        host, port = self.parent
        control = free_address()
        secret = b64encode(secrets.token_bytes(32)).decode()
        key = f'key "k" {{ algorithm hmac-sha256; secret "{secret}"; }};'
        lines = [
            key,
            f'controls {{ inet {control[0]} port {control[1]} allow {{ any; }} keys {{ "k"; }}; }};',
            (
                f'options {{ directory "{self.folder}"; key-directory "{self.folder}"; listen-on {{ '
                f"{self.address}; }};"
            ),
            (
                "  listen-on-v6 { none; }; recursion no; dnssec-validation no; notify no; pid-file none; "
                "session-keyfile none; };"
            ),
            (
                "dnssec-policy fast { keys { ksk lifetime unlimited algorithm 13; zsk lifetime unlimited "
                "algorithm 13; };"
            ),
            (
                "  dnskey-ttl 1; publish-safety PT1S; retire-safety PT1S; zone-propagation-delay PT1S; "
                "max-zone-ttl PT1S;"
            ),
            (
                "  parent-ds-ttl PT1S; parent-propagation-delay PT1S; signatures-validity P10D; "
                "signatures-refresh P5D; };"
            ),
            f'zone "{self.zone}" {{ type primary; file "zone"; inline-signing yes; dnssec-policy fast;',
            f"  parental-agents {{ {host} port {port}; }}; }};",
        ]
        (self.folder / "conf").write_text("\n".join(lines) + "\n", encoding="utf-8")
        options = f'options {{ default-key "k"; default-server {control[0]}; default-port {control[1]}; }};\n'
        (self.folder / "rndc").write_text(f"{key}\n{options}", encoding="utf-8")
        return ["named", "-g", "-4", "-n", "1", "-c", str(self.folder / "conf")]

    def control(self, *words: str) -> str:
        """Run rndc."""
        return run_tool(["rndc", "-c", str(self.folder / "rndc"), *words], None, self.folder)

    def roll(self) -> None:
        """Begin to roll the key-signing key."""
        (tag,) = self.key_tags("ksk")
        self.control("dnssec", "-rollover", "-key", str(tag), self.zone)

    def ask_to_delete(self) -> None:
        """Publish CDS and CDNSKEY records that ask to delete the DS records, with the policy `insecure`."""
        conf = self.folder / "conf"
        text = conf.read_text(encoding="utf-8")
        conf.write_text(text.replace("dnssec-policy fast;", "dnssec-policy insecure;"), encoding="utf-8")
        self.control("reconfig")

    def look(self) -> None:
        """Make BIND check its keys and query the parental agents now. Otherwise it does so every hour."""
        self.control("loadkeys", self.zone)


@dataclass(slots=True)
class PowerDnsChild(Child):
    """A zone on its own PowerDNS, which publishes CDS records of the active key-signing keys."""

    def configure(self) -> list[str]:
        """Write the configuration and return the command that runs it."""
        lines = [
            "launch=gsqlite3",
            f"gsqlite3-database={self.folder}/pdns.sqlite3",
            "gsqlite3-dnssec=yes",
            "gsqlite3-pragma-synchronous=0",
            f"local-address={self.address}",
            f"socket-dir={self.folder}",
            "disable-syslog=yes",
            *(f"{each}=0" for each in ("cache-ttl", "query-cache-ttl", "negquery-cache-ttl")),
            *(f"{each}=0" for each in ("dnssec-key-cache-ttl", "domain-metadata-cache-ttl")),
            "zone-cache-refresh-interval=0",
        ]
        (self.folder / "pdns.conf").write_text("\n".join(lines) + "\n", encoding="utf-8")
        schema = "/usr/share/pdns-backend-sqlite3/schema/schema.sqlite3.sql"
        run_tool(["sqlite3", f"{self.folder}/pdns.sqlite3", f".read {schema}"], None, self.folder)
        self.control("load-zone", self.zone, str(self.folder / "zone"))
        for kind in ("ksk", "zsk"):
            self.control("add-zone-key", self.zone, kind, "active", "ecdsa256")
        self.control("set-publish-cds", self.zone)
        self.control("rectify-zone", self.zone)
        return [
            "pdns_server",
            f"--config-dir={self.folder}",
            "--guardian=no",
            "--daemon=no",
            "--write-pid=no",
        ]

    def control(self, *words: str) -> str:
        """Run pdnsutil."""
        return run_tool(["pdnsutil", f"--config-dir={self.folder}", *words], None, self.folder)

    def ask_to_delete(self) -> None:
        """Publish CDS and CDNSKEY records that ask to delete the DS records."""
        self.control("set-publish-cds", self.zone, "0")
        self.control("set-publish-cdnskey", self.zone, "delete")

    def key_ids(self) -> list[str]:
        """Return PowerDNS's ids of the key-signing keys, the oldest first."""
        query = "select k.id from cryptokeys k where k.flags = 257 order by k.id"
        return run_tool(["sqlite3", f"{self.folder}/pdns.sqlite3", query], None, self.folder).split()


@contextmanager
def child_running(child: Child) -> Iterator[None]:
    """Run a child's server, wait until the zone requests DS records, and stop the server at the end."""
    child.write_zone()
    with dns_program(child.folder, child.configure()) as program:
        program.wait_for(lambda: bool(child.ds_records()))
        yield


def ask(address: str, name: str, rdtype: str, port: int = 53) -> dns.message.Message:
    """Send a query to an authoritative server over TCP."""
    query = dns.message.make_query(name, rdtype)
    query.flags &= ~dns.flags.RD
    return dns.query.tcp(query, address, 5, port)


def ds_at(address: str, name: str, port: int) -> set[DsRecord]:
    """Return the DS records of a name at the parent's server."""
    return _ds_records(ask(address, name, "DS", port))


def _ds_records(message: dns.message.Message) -> set[DsRecord]:
    return {
        DsRecord(each.key_tag, int(each.algorithm), int(each.digest_type), each.digest.hex())
        for rrset in message.answer
        for each in rrset
    }


def notify(server: tuple[str, int], name: str, rdtype: str = "CDS") -> None:
    """Send a NOTIFY about new CDS or CSYNC records to a name server, as the child's
    primary does (RFC 9859).
    """
    message = dns.message.make_query(name, rdtype)
    message.set_opcode(dns.opcode.NOTIFY)
    assert dns.query.udp(message, server[0], 5, server[1]).rcode() == dns.rcode.NOERROR


class Watcher:
    """Queries a validating resolver for a name continuously, and records each answer: the code, and whether
    it was secure.
    """

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
    """A name of a service, whose DS records follow the child's CDS records."""

    service: RunningService
    who: Registrant
    fqdn: str

    def register(
        self, nameservers: Sequence[str], ds_records: Collection[DsRecord], glue: Mapping[str, str] = {}
    ) -> None:
        """Register the name with these nameservers, and with the IPv4 addresses of those below the name, and
        wait until it is published.
        """
        self.service.register(
            self.who,
            self.fqdn,
            nameservers=list(nameservers),
            glue=[{"host": host, "ipv4": address} for host, address in glue.items()],
            ds_records=[asdict(each) for each in ds_records],
        )
        path = f"/subdomains/{self.fqdn}"
        wait_until(lambda: self.service.call(self.who, "GET", path).json()["subdomain"]["status"] == "active")

    def check(self) -> dict[str, Any]:
        """Check the name by the operator's command, and return the answer.

        It is refused, and repeated, while a change of the name is being published or the worker checks it.
        """
        answer: dict[str, Any] = {}

        def is_possible() -> bool:
            answer.clear()
            answer.update(self.service.operator("subdomain", "check-ds", self.fqdn, expect=None))
            return "again" not in answer.get("message", "")

        wait_until(is_possible)
        return answer

    def show(self) -> dict[str, Any]:
        """Return the name's automatic DS from the API."""
        answer = self.service.call(self.who, "GET", f"/subdomains/{self.fqdn}/automatic-ds")
        return dict(answer.json()["automatic_ds"])

    def ds_records(self) -> set[DsRecord]:
        """Return the name's DS records."""
        names = ("key_tag", "algorithm", "digest_type", "digest")
        return {DsRecord(**{name: each[name] for name in names}) for each in self.show()["ds_records"]}

    def wait_for(self, is_done: Callable[[set[DsRecord]], bool]) -> None:
        """Check the name until its DS records fulfil a condition."""

        def is_so() -> bool:
            self.check()
            return is_done(self.ds_records())

        wait_until(is_so)

    def wait_for_new_ds(self, before: Collection[DsRecord]) -> None:
        """Check the name until it has DS records, and none of `before`."""
        self.wait_for(lambda ds_records: bool(ds_records) and not ds_records & set(before))

    def timeline(self, event: str) -> list[dict[str, Any]]:
        """Return the past events of a kind."""
        answer = self.service.call(self.who, "GET", f"/subdomains/{self.fqdn}/timeline").json()
        return [each for each in answer["timeline"] if each["event"] == event and each["past"]]
