"""A small Internet of real name servers in the network of a test, whose zones, keys and faults are data.

All servers of a world listen on port 53 at addresses that look public (`network_namespace`). Zones are signed
here, so that signatures can be wrong or old. Knot, BIND, NSD and PowerDNS serve them. A `FaultyNameServer`
has faults that no maintained server has.
"""

import base64
import tempfile
import time
from collections.abc import Iterable, Iterator, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any

import dns.dnssec
import dns.dnssectypes
import dns.flags
import dns.message
import dns.name
import dns.query
import dns.rdatatype
import dns.zone
from cryptography.hazmat.primitives.asymmetric import ec, rsa

from sublet.dns.records import delegation_records
from sublet.dns.types import DsRecord
from sublet.health.model import Target
from support.dns_program import dns_program
from support.fault_proxy import FaultProxy, fault_proxies_running
from support.faulty_name_server import FaultyNameServer, faulty_servers_running
from support.name_server_programs import run_tool

DAY = 86_400
_POWERDNS_SCHEMA = "/usr/share/pdns-backend-sqlite3/schema/schema.sqlite3.sql"
ROOT_ADDRESS = "198.41.0.4"
"""The address of the root server in each world."""


@dataclass(frozen=True)
class ZoneKey:
    """The only key that signs a zone (a combined signing key)."""

    private: Any
    dnskey: Any

    @classmethod
    def new(cls, algorithm: int = 13, *, bits: int = 2048) -> "ZoneKey":
        """Return a new key of algorithm 13, or of an RSA algorithm."""
        private = (
            ec.generate_private_key(ec.SECP256R1())
            if algorithm == 13
            else rsa.generate_private_key(65537, bits)
        )
        dnskey = dns.dnssec.make_dnskey(private.public_key(), dns.dnssectypes.Algorithm(algorithm), flags=257)
        return cls(private, dnskey)

    def ds(self, zone: str) -> DsRecord:
        """Return the DS record of the key, with SHA-256."""
        made = dns.dnssec.make_ds(dns.name.from_text(zone), self.dnskey, "SHA256", validating=True)
        return DsRecord(made.key_tag, int(made.algorithm), int(made.digest_type), made.digest.hex())


@dataclass(frozen=True)
class Zone:
    """A zone. `records` are lines of its zone file without the SOA, with relative names. `key` signs it.

    `signed_from` and `signed_until` are seconds from now. The records of the types `fresh` are signed until
    30 days from now nevertheless. `nsec3` proves absence by NSEC3 instead of NSEC records. `published` are
    more DNSKEYs of the zone. `mutilated` is a text of a record and its replacement after signing. `file` is
    the whole zone file, instead of `records`.
    """

    name: str
    records: tuple[str, ...]
    key: ZoneKey | None = None
    serial: int = 1
    signed_from: float = -DAY
    signed_until: float = 30 * DAY
    fresh: tuple[str, ...] = ()
    nsec3: bool = False
    published: tuple[ZoneKey, ...] = ()
    mutilated: tuple[str, str] | None = None
    file: str = ""

    def text(self) -> str:
        """Return the zone file."""
        if self.file:
            return self.file
        lines = [
            f"$ORIGIN {self.name.rstrip('.')}.",
            "$TTL 300",
            f"@ SOA ns hostmaster {self.serial} 3600 900 86400 60",
            *self.records,
        ]
        zone = dns.zone.from_text(
            "\n".join(lines) + "\n", origin=f"{self.name.rstrip('.')}.", relativize=False
        )
        if self.key is not None:
            with zone.writer() as txn:
                for other in self.published:
                    txn.add(zone.origin, 300, other.dnskey)
            if self.nsec3:
                return _signed_with_nsec3(zone, self.key)
            dns.dnssec.sign_zone(zone, keys=[(self.key.private, self.key.dnskey)], rrset_signer=self._sign)
        text = zone.to_text(relativize=False)
        if self.mutilated is not None:
            assert self.mutilated[0] in text
            text = text.replace(*self.mutilated)
        return text

    def _sign(self, txn: Any, rrset: Any) -> None:
        assert self.key is not None
        now, key = time.time(), [(self.key.private, self.key.dnskey)]
        is_fresh = dns.rdatatype.to_text(rrset.rdtype) in self.fresh
        span = (-DAY, 30 * DAY) if is_fresh else (self.signed_from, self.signed_until)
        dns.dnssec.default_rrset_signer(
            txn,
            rrset,
            dns.name.from_text(self.name),
            key,
            key,
            inception=now + span[0],
            expiration=now + span[1],
        )


def _signed_with_nsec3(zone: dns.zone.Zone, key: ZoneKey) -> str:
    """Return the zone, signed for 30 days with NSEC3 records by BIND's program. `key` has algorithm 13."""
    secret = base64.b64encode(key.private.private_numbers().private_value.to_bytes(32, "big")).decode()
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        zone.to_file(folder / "zone", relativize=False)
        (folder / "key.key").write_text(f"{zone.origin} IN DNSKEY {key.dnskey}\n")
        secret = f"Private-key-format: v1.3\nAlgorithm: 13 (ECDSAP256SHA256)\nPrivateKey: {secret}\n"
        (folder / "key.private").write_text(secret)
        run_tool(f"dnssec-signzone -P -z -3 - -H 0 -S -o {zone.origin} zone key", None, folder)
        return (folder / "zone.signed").read_text()


@dataclass(frozen=True)
class Server:
    """A real server.

    `kind` is knot, bind, nsd or powerdns. `recursion` turns recursion on for all clients (BIND).
    """

    kind: str
    addresses: tuple[str, ...]
    zones: tuple[Zone, ...]
    recursion: bool = False
    port: int = 53


@dataclass(frozen=True)
class World:
    """All servers of a small Internet."""

    servers: tuple[Server, ...]
    faulty_servers: tuple[FaultyNameServer, ...] = ()
    silent: tuple[str, ...] = ()
    """Addresses at which nothing listens."""
    proxies: tuple[FaultProxy, ...] = ()

    @property
    def addresses(self) -> tuple[str, ...]:
        """The addresses that the test's network must have."""
        return tuple(
            dict.fromkeys(
                [
                    *(address for each in self.servers for address in each.addresses),
                    *(each.address for each in self.faulty_servers),
                    *(each.address for each in self.proxies),
                    *self.silent,
                ]
            )
        )


def ds_text(record: DsRecord) -> str:
    """Return the data of a DS record."""
    return f"{record.key_tag} {record.algorithm} {record.digest_type} {record.digest}"


def delegation_lines(targets: Iterable[Target]) -> list[str]:
    """Return the records of delegations in the zone above."""
    return [
        f"{record.owner}. {record.type} {record.rdata}"
        for each in targets
        for record in delegation_records(each.fqdn, each.delegation, 300)
    ]


def root_and_test(
    address: str,
    records: Sequence[str],
    root_key: ZoneKey,
    *,
    root_addresses: Sequence[str] = (ROOT_ADDRESS,),
    signed_until: float = 30 * DAY,
) -> tuple[Server, Server]:
    """Return a signed root server, and at `address` one of the signed zone `test` with these records."""
    key = ZoneKey.new()
    root = (
        "@ NS root",
        *(f"root {'AAAA' if ':' in each else 'A'} {each}" for each in root_addresses),
        "test NS ns.test",
        f"ns.test A {address}",
        f"test DS {ds_text(key.ds('test'))}",
    )
    test = ("@ NS ns", f"ns A {address}", *records)
    return (
        Server("knot", tuple(root_addresses), (Zone(".", root, root_key, signed_until=signed_until),)),
        Server("knot", (address,), (Zone("test", test, key, signed_until=signed_until),)),
    )


@contextmanager
def world_running(folder: Path, world: World) -> Iterator[None]:
    """Run all servers of a world, and stop them at the end."""
    with servers_running(folder, world.servers), ExitStack() as stack:
        stack.enter_context(faulty_servers_running(world.faulty_servers))
        stack.enter_context(fault_proxies_running(world.proxies))
        yield


@contextmanager
def servers_running(folder: Path, servers: Sequence[Server]) -> Iterator[None]:
    """Run real servers until they answer for their zones, and stop them at the end."""
    with ExitStack() as stack:
        started = []
        for number, server in enumerate(servers):
            own = folder / str(number)
            own.mkdir(parents=True)
            for zone in server.zones:
                (own / _file(zone)).write_text(zone.text(), encoding="utf-8")
            started.append(stack.enter_context(dns_program(own, _CONFIGURE[server.kind](own, server))))
        for program, server in zip(started, servers, strict=True):
            program.wait_for(partial(_answers, server))
        yield


def _answers(server: Server) -> bool:
    question = server.zones[0].name if server.zones else "."
    reply = dns.query.udp(dns.message.make_query(question, "SOA"), server.addresses[0], 1, server.port)
    return not server.zones or bool(reply.flags & dns.flags.AA)


def _file(zone: Zone) -> str:
    return f"{zone.name.rstrip('.') or 'root'}.zone"


def _knot(folder: Path, server: Server) -> list[str]:
    listens = ", ".join(f"{each}@{server.port}" for each in server.addresses)
    lines = [
        "server:",
        f"  listen: [ {listens} ]",
        f'  rundir: "{folder}"',
        "  udp-workers: 1",
        "  tcp-workers: 1",
        "  background-workers: 1",
        "database:",
        f'  storage: "{folder}"',
        "control:",
        f'  listen: "{folder}/k"',
        "zone:",
    ]
    for zone in server.zones:
        lines += [
            f"  - domain: {zone.name.rstrip('.')}.",
            f'    file: "{folder}/{_file(zone)}"',
            "    zonefile-sync: -1",
            "    semantic-checks: off",
        ]
    (folder / "conf").write_text("\n".join(lines) + "\n", encoding="utf-8")
    return ["knotd", "-c", str(folder / "conf")]


def _bind(folder: Path, server: Server) -> list[str]:
    four = "".join(f" {each};" for each in server.addresses if ":" not in each)
    six = "".join(f" {each};" for each in server.addresses if ":" in each)
    recursion = "recursion yes; allow-recursion { any; };" if server.recursion else "recursion no;"
    lines = [
        "options {",
        f'  directory "{folder}"; port {server.port};',
        f"  listen-on {{{four or ' none;'} }}; listen-on-v6 {{{six or ' none;'} }};",
        f"  {recursion} dnssec-validation no; notify no; pid-file none; session-keyfile none;",
        "};",
        "controls { };",
    ]
    if server.recursion:
        (folder / "hints").write_text(f". 3600 NS root.\nroot. 3600 A {ROOT_ADDRESS}\n", encoding="utf-8")
        lines.append('zone "." { type hint; file "hints"; };')
    lines += [
        f'zone "{zone.name}" {{ type primary; file "{_file(zone)}"; check-names ignore; }};'
        for zone in server.zones
    ]
    (folder / "conf").write_text("\n".join(lines) + "\n", encoding="utf-8")
    return ["named", "-g", "-n", "1", "-c", str(folder / "conf")]


def _nsd(folder: Path, server: Server) -> list[str]:
    lines = ["server:", *(f"  ip-address: {each}@{server.port}" for each in server.addresses)]
    lines += [
        "  server-count: 1",
        '  username: ""',
        f'  zonesdir: "{folder}"',
        '  database: ""',
        f'  zonelistfile: "{folder}/zones"',
        '  xfrdfile: ""',
        f'  xfrdir: "{folder}"',
        '  pidfile: ""',
        "  rrl-ratelimit: 0",
        "remote-control:",
        "  control-enable: no",
    ]
    for zone in server.zones:
        lines += ["zone:", f"  name: {zone.name}", f'  zonefile: "{folder}/{_file(zone)}"']
    (folder / "conf").write_text("\n".join(lines) + "\n", encoding="utf-8")
    return ["nsd", "-d", "-c", str(folder / "conf")]


def _powerdns(folder: Path, server: Server) -> list[str]:
    database = folder / "pdns.sqlite3"
    lines = [
        "launch=gsqlite3",
        f"gsqlite3-database={database}",
        "gsqlite3-dnssec=yes",
        "gsqlite3-pragma-synchronous=0",
        f"local-address={','.join(server.addresses)}",
        f"local-port={server.port}",
        f"socket-dir={folder}",
        "disable-syslog=yes",
        "cache-ttl=0",
    ]
    (folder / "pdns.conf").write_text("\n".join(lines) + "\n", encoding="utf-8")
    run_tool(["sqlite3", str(database), f".read {_POWERDNS_SCHEMA}"], None, folder)
    for zone in server.zones:
        run_tool(
            ["pdnsutil", f"--config-dir={folder}", "load-zone", zone.name, str(folder / _file(zone))],
            None,
            folder,
        )
    # PowerDNS would otherwise answer without the signatures, which are among the records.
    signed = [zone.name.rstrip(".") for zone in server.zones if zone.key is not None]
    presigned = (
        "insert into domainmetadata (domain_id, kind, content) select id, 'PRESIGNED', '1' from domains "
        "where name = '{}';"
    )
    run_tool(["sqlite3", str(database)], "\n".join(map(presigned.format, signed)), folder)
    return ["pdns_server", f"--config-dir={folder}", "--guardian=no", "--daemon=no", "--write-pid=no"]


_CONFIGURE = {"knot": _knot, "bind": _bind, "nsd": _nsd, "powerdns": _powerdns}


@contextmanager
def unbound_running(
    folder: Path, address: str, root: tuple[str, ZoneKey], *, port: int = 53, is_validating: bool = True
) -> Iterator[str]:
    """Run unbound as a resolver at an address, with the root server's address and key."""
    folder.mkdir(parents=True)
    (folder / "hints").write_text(f". 3600 NS root.\nroot. 3600 A {root[0]}\n", encoding="utf-8")
    (folder / "anchor").write_text(f". IN DNSKEY {root[1].dnskey}\n", encoding="utf-8")
    lines = [
        "server:",
        f" interface: {address}@{port}",
        ' module-config: "validator iterator"' if is_validating else ' module-config: "iterator"',
        f" access-control: {address}/0 allow",
        f' directory: "{folder}"',
        ' chroot: ""',
        ' username: ""',
        ' pidfile: ""',
        " use-syslog: no",
        f' root-hints: "{folder}/hints"',
        f' trust-anchor-file: "{folder}/anchor"',
        " num-threads: 1",
        " qname-minimisation: no",
        " aggressive-nsec: no",
        " infra-host-ttl: 0",
        " infra-keep-probing: yes",
        " local-zone: 'test.' nodefault",
        " unblock-lan-zones: yes",
        " outgoing-interface: " + address,
        " do-ip6: no",
        "remote-control:",
        " control-enable: no",
    ]
    (folder / "conf").write_text("\n".join(lines) + "\n", encoding="utf-8")
    with _resolver(folder, ["unbound", "-d", "-c", str(folder / "conf")], address, port):
        yield address


@contextmanager
def bind_resolver_running(folder: Path, address: str, root: tuple[str, ZoneKey]) -> Iterator[str]:
    """Run BIND as a validating resolver at an address, with the root server's address and key."""
    folder.mkdir(parents=True)
    (folder / "hints").write_text(f". 3600 NS root.\nroot. 3600 A {root[0]}\n", encoding="utf-8")
    flags, protocol, algorithm, key = str(root[1].dnskey).split(" ", 3)
    lines = [
        f'options {{ directory "{folder}"; listen-on {{ {address}; }}; listen-on-v6 {{ none; }};',
        (
            f"  recursion yes; allow-recursion {{ any; }}; dnssec-validation yes; query-source address "
            f"{address};"
        ),
        "  pid-file none; session-keyfile none; qname-minimization off; lame-ttl 0;",
        "  servfail-ttl 0; synth-from-dnssec no;",
        '  disable-empty-zone "."; empty-zones-enable no; };',
        "controls { };",
        f'trust-anchors {{ "." static-key {flags} {protocol} {algorithm} "{key.replace(" ", "")}"; }};',
        f'zone "." {{ type hint; file "{folder}/hints"; }};',
    ]
    (folder / "conf").write_text("\n".join(lines) + "\n", encoding="utf-8")
    with _resolver(folder, ["named", "-4", "-g", "-n", "1", "-c", str(folder / "conf")], address):
        yield address


@contextmanager
def _resolver(folder: Path, words: Sequence[str], address: str, port: int = 53) -> Iterator[None]:
    query = dns.message.make_query(".", "NS", want_dnssec=True)
    with dns_program(folder, words) as program:
        program.wait_for(lambda: bool(dns.query.udp(query, address, 2, port)))
        yield
