"""Real name servers that run with the configurations of `sublet zone config`, so that every line of these is
tested.
"""

import os
import secrets
import shlex
import signal
import subprocess
from base64 import b64encode
from collections.abc import Iterator, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from pathlib import Path

import dns.exception
import dns.flags
import dns.message
import dns.name
import dns.query
import dns.rcode
import dns.rdatatype
import dns.rrset
import dns.tsig
import dns.zone

from sublet.dns.types import Apex, Primary, Record, Secondary, TsigKey
from sublet.primaries.server_config import Places, SecondarySite, ServerConfig, Site
from sublet.secret import Secret
from support.dns_program import dns_program
from support.free_ports import free_address
from support.name_server_programs import PRIMARIES, SECONDARIES, Program, run_tool, succeeds
from support.programs import find_program
from support.waiting import wait_until

KINDS = tuple(PRIMARIES)
TRANSFER_TRIES = 5
HOST_COMMANDS = ("apt-get", "install", "systemctl", "rm")
"""The printed commands that install packages and files on a host, and start services there."""
OF_SIGNING = ("RRSIG", "NSEC", "NSEC3", "NSEC3PARAM", "DNSKEY", "CDS", "CDNSKEY", "TYPE65534")
"""The record types that signing adds. The last type is BIND's private record of its progress."""


def fresh_key(name: str, algorithm: str = "hmac-sha256") -> TsigKey:
    """Return a new random key."""
    return TsigKey(name, algorithm, Secret(b64encode(secrets.token_bytes(32)).decode()))


def zone_apex(zone: str, address: str = "127.0.0.1", **changes: object) -> Apex:
    """Return an apex with the defaults of a platform domain, and a nameserver inside the zone."""
    host = f"ns1.{zone}"
    fields: dict[str, object] = {
        "zone": zone,
        "nameservers": (host,),
        "soa_mname": host,
        "soa_rname": f"hostmaster.{zone}",
        "serial": 1,
        "refresh_seconds": 3600,
        "retry_seconds": 900,
        "expire_seconds": 1_209_600,
        "negative_ttl_seconds": 300,
        "ttl_seconds": 3600,
        "addresses": (Record(host, "A", 3600, address),),
        **changes,
    }
    return Apex(**fields)  # type: ignore[arg-type] # by name, as the tests give them


@dataclass(slots=True)
class NameServerProcess:
    """A server of one zone.

    A test can stop, kill or freeze it, and start it again on the same port with the same state.
    """

    kind: str
    address: str
    port: int
    zone: str
    key: TsigKey
    """The key that may send updates; on a secondary, the key for transfers."""
    transfer_key: TsigKey
    folder: Path
    program: Program
    config: ServerConfig
    process: "subprocess.Popen[bytes] | None" = field(default=None)

    @property
    def pid(self) -> int:
        """The id of the server's first process."""
        assert self.process is not None
        return self.process.pid

    @property
    def log(self) -> Path:
        """The log of the server."""
        return self.folder / "server.log"

    @property
    def configuration(self) -> str:
        """The path of the main configuration file."""
        return self.config.files[0].path

    def as_primary(self, name: str = "primary") -> Primary:
        """Return the server as a primary of the settings."""
        return Primary(name, self.address, self.port, self.key)

    def install(self) -> None:
        """Write the printed files and run the printed commands, except commands for the whole machine."""
        for name in ("c", "s", "r"):
            (self.folder / name).mkdir(parents=True, exist_ok=True)
        for file in self.config.files:
            path = Path(file.path)
            path.write_text(file.text, encoding="utf-8")
            path.chmod(int(file.mode, 8))
        for step in self.config.steps:
            if step.command.startswith("systemctl restart"):
                self.start(wait=False)
                self.wait_for_control()
            elif step.command.split()[0] not in HOST_COMMANDS:
                self.run(step.command)

    def run(self, command: str | Sequence[str], text: str | None = None) -> str:
        """Run a command, which must succeed, and return its output."""
        return run_tool(command, text, self.folder)

    def start(self, *, wait: bool = True) -> None:
        """Start the server, and wait until it answers for its zone."""
        # In a session of its own, because some servers have several processes, and a signal must reach all of
        # them.
        with self.log.open("ab") as log:
            self.process = subprocess.Popen(
                self._words(self.program.start_command(self)),
                stdout=log,
                stderr=log,
                cwd=self.folder,
                start_new_session=True,
            )
        if wait:
            wait_until(self.is_ready)

    def wait_for_control(self) -> None:
        """Wait until the printed commands for a running server can be run."""
        command = self.program.status_command.format(shlex.quote(self.configuration))
        if command:
            wait_until(lambda: succeeds(command, self.folder))

    def write_zone_files(self) -> None:
        """Have the server write its zone files, if it can, as it does once an hour."""
        command = self.program.write_command.format(shlex.quote(self.configuration))
        if command:
            succeeds(command, self.folder)

    def _words(self, command: str) -> list[str]:
        words = shlex.split(command)
        return [find_program(words[0]), *words[1:]]

    def is_ready(self) -> bool:
        """Return True if the server answers for its zone, with signatures."""
        assert self.process is not None
        assert self.process.poll() is None, self.log.read_text(errors="replace")[-4000:]
        try:
            reply = self.ask(self.zone, "SOA", want_dnssec=True, timeout=1)
        except (dns.exception.DNSException, OSError):
            return False
        types = {rrset.rdtype for rrset in reply.answer}
        return bool(reply.flags & dns.flags.AA) and dns.rdatatype.RRSIG in types

    def ask(
        self, name: str, rdtype: str, *, want_dnssec: bool = False, timeout: float = 60
    ) -> dns.message.Message:
        """Send a query over TCP, without recursion."""
        query = dns.message.make_query(name, rdtype, want_dnssec=want_dnssec)
        query.flags &= ~dns.flags.RD
        return dns.query.tcp(query, self.address, timeout, self.port)

    def serial(self) -> int:
        """Return the serial that the server has now."""
        return int(self.ask(self.zone, "SOA").answer[0][0].serial)

    def transfer(self, key: TsigKey | None = None) -> dns.zone.Zone:
        """Return the whole zone by AXFR, signed with the server's key."""
        used = key or self.key
        ring = {dns.name.from_text(used.name): dns.tsig.Key(used.name, used.secret.reveal(), used.algorithm)}
        for _ in range(TRANSFER_TRIES):
            zone = dns.zone.Zone(self.zone, relativize=False)
            query = dns.message.make_query(self.zone, "AXFR")
            query.use_tsig(ring)
            with suppress(
                EOFError
                # Knot closes the connection if the client needs half a second for a part, as on a busy
                # machine
            ):
                dns.query.inbound_xfr(self.address, zone, query, self.port, timeout=60, lifetime=60)
                return zone
        raise EOFError(f"{self.kind} ends each transfer of {self.zone} too early")

    def records(self) -> set[Record]:
        """Return all records of the zone, without the SOA and the record types in `OF_SIGNING`."""
        found = set()
        for name, ttl, rdata in self.transfer().iterate_rdatas():
            kind = dns.rdatatype.to_text(rdata.rdtype)
            if kind not in (*OF_SIGNING, "SOA"):
                owner = name.to_text(omit_final_dot=True).lower()
                found.add(Record(owner, kind, ttl, rdata.to_text()))
        return found

    def zone_text(self) -> str:
        """Return the zone as a file without signatures, for a later `rebuild`."""
        zone = self.transfer()
        lines = [
            f"{name} {ttl} IN {dns.rdatatype.to_text(rdata.rdtype)} {rdata.to_text()}"
            for name, ttl, rdata in zone.iterate_rdatas()
            if dns.rdatatype.to_text(rdata.rdtype) not in OF_SIGNING
        ]
        return "\n".join(lines) + "\n"

    def nsupdate(self, lines: Sequence[str]) -> None:
        """Change the zone on the server itself, as its operator would.

        `lines` are lines of nsupdate with full names: `add NAME TTL TYPE RDATA`, `delete NAME [TYPE
        [RDATA]]`.
        """
        self.program.change_by_hand(self, [shlex.split(line, posix=False) for line in lines])

    def trust_anchor(self) -> str:
        """Return the zone's DNSKEY as a line of a zone file, for a resolver's trust anchors."""
        reply = self.ask(self.zone, "DNSKEY")
        return "\n".join(
            f"{self.zone}. IN DNSKEY {rdata.to_text()}" for rrset in reply.answer for rdata in rrset
        )

    def rebuild(self, zone_text: str | None = None) -> None:
        """Restart the server as after a loss of its zone: with this zone file or the first one, without its
        journal, with its signing keys.
        """
        self.kill()
        self.program.forget(self)
        self.program.load(self, zone_text)
        self.start()

    def stop(self) -> None:
        """Stop the server gracefully, and wait for its end."""
        self._end(signal.SIGTERM)

    def kill(self) -> None:
        """Kill the server's processes, as a power cut would."""
        self._end(signal.SIGKILL)

    def _end(self, number: int) -> None:
        if self.process is not None and self.process.poll() is None:
            self._send(number)
            self._send(signal.SIGCONT)
            self.process.wait(60)
            # Its other processes may live a moment longer, and hold the port.
            wait_until(lambda: self._states() <= {"Z", "X"})

    def freeze(self) -> None:
        """Freeze the server: connections stay open, and nothing is answered."""
        self._send(signal.SIGSTOP)
        # A thread may still answer for a moment after the signal.
        wait_until(lambda: self._states() == {"T"})

    def _states(self) -> set[str]:
        """Return the states of all threads of the server, as the kernel reports them."""
        states = set()
        for task in Path("/proc").glob("[0-9]*/task/[0-9]*/stat"):
            try:
                # pid (name) state parent group …: the name may have spaces and parentheses.
                state, _, group = task.read_text().rpartition(")")[2].split()[:3]
            except OSError:  # the process ended in the meantime
                continue
            if int(group) == self.pid:
                states.add(state)
        return states

    def thaw(self) -> None:
        """Let a frozen server continue."""
        self._send(signal.SIGCONT)

    def _send(self, number: int) -> None:
        with suppress(ProcessLookupError):
            os.killpg(self.pid, number)


def places_in(folder: Path) -> Places:
    """Return paths that are short enough for sockets, which may have 107 characters."""
    return Places(str(folder / "c"), str(folder / "s"), str(folder / "r"))


@contextmanager
def primary(
    kind: str,
    folder: Path,
    zone: str,
    *,
    apex: Apex | None = None,
    secondaries: Sequence[Secondary] = (),
    address: tuple[str, int] | None = None,
    transfer_key: TsigKey | None = None,
    records: bool = False,
) -> Iterator[NameServerProcess]:
    """Run a primary that signs its zone and accepts updates with its `key`, and stop it at the end."""
    host, port = address or free_address()
    flat = zone.replace(".", "-")
    key = fresh_key(f"sublet-{flat}")
    transfer_key = transfer_key or fresh_key(f"sublet-{flat}-transfer")
    apex = apex or zone_apex(zone, host)
    folder.mkdir(parents=True, exist_ok=True)
    program = PRIMARIES[kind]
    site = Site(apex, key, transfer_key, host, port, places_in(folder), tuple(secondaries), records)
    config = program.configure_primary(site)
    server = NameServerProcess(kind, host, port, zone, key, transfer_key, folder, program, config)
    with _running(server):
        yield server


@contextmanager
def secondary(
    kind: str, folder: Path, *, of: NameServerProcess, address: tuple[str, int] | None = None
) -> Iterator[NameServerProcess]:
    """Run a secondary with its primary's zone, and stop it at the end.

    The primary must know the secondary's address. Choose the address first (`free_address("127.0.0.2")`),
    pass it to `primary(secondaries=…)`, then start the secondary at this address.
    """
    host, port = address or free_address("127.0.0.2")
    folder.mkdir(parents=True, exist_ok=True)
    program = SECONDARIES[kind]
    site = SecondarySite(of.zone, of.transfer_key, host, port, of.address, of.port, places_in(folder))
    config = program.configure_secondary(site)
    key = of.transfer_key
    server = NameServerProcess(kind, host, port, of.zone, key, key, folder, program, config)
    with _running(server):
        yield server


@contextmanager
def _running(server: NameServerProcess) -> Iterator[None]:
    try:
        server.install()
        wait_until(server.is_ready)
        yield
    finally:
        server.kill()


@contextmanager
def resolver(
    folder: Path,
    stubs: dict[str, tuple[str, int]],
    trust_anchors: Sequence[str] = (),
    options: Sequence[str] = (),
    address: tuple[str, int] | None = None,
) -> Iterator[tuple[str, int]]:
    """Run unbound as a validating resolver, and yield its address. `stubs` are the name servers of zones.

    `options` are more lines of the server clause.
    """
    host, port = address or free_address()
    folder.mkdir(parents=True, exist_ok=True)
    lines = [
        "server:",
        f" interface: {host}@{port}",
        " username: ''",
        " chroot: ''",
        f" directory: '{folder}'",
        " pidfile: ''",
        " use-syslog: no",
        " do-daemonize: no",
        " do-not-query-localhost: no",
        " module-config: 'validator iterator'",
        " val-log-level: 2",
        *options,
        *(f" local-zone: '{zone.rsplit('.', 1)[-1]}.' nodefault" for zone in stubs),
        *(f" trust-anchor: '{line}'" for each in trust_anchors for line in each.splitlines()),
        "remote-control:",
        " control-enable: no",
    ]
    for zone, (server_host, server_port) in stubs.items():
        lines += ["stub-zone:", f" name: {zone}", f" stub-addr: {server_host}@{server_port}"]
    path = folder / "unbound.conf"
    path.write_text("\n".join(lines) + "\n", encoding="utf-8")
    with dns_program(folder, ["unbound", "-d", "-c", str(path)]) as program:
        program.wait_for(
            lambda: resolve((host, port), next(iter(stubs)), "SOA", timeout=2).rcode() == dns.rcode.NOERROR
        )
        yield host, port


def resolve(
    resolver_address: tuple[str, int], name: str, rdtype: str, timeout: float = 60
) -> dns.message.Message:
    """Send a query with the AD flag to a resolver."""
    query = dns.message.make_query(name, rdtype, want_dnssec=True)
    query.flags |= dns.flags.AD
    return dns.query.tcp(query, resolver_address[0], timeout, resolver_address[1])


def validate(
    folder: Path,
    stubs: dict[str, tuple[str, int]],
    trust_anchors: Sequence[str],
    *questions: tuple[str, str],
) -> list[tuple[str, bool]]:
    """Query a new resolver, whose cache is empty.

    Return the code of each answer, and whether the answer has the AD flag.
    """
    with resolver(folder, stubs, trust_anchors) as asked:
        answers = [resolve(asked, *question) for question in questions]
    return [(dns.rcode.to_text(each.rcode()), bool(each.flags & dns.flags.AD)) for each in answers]
