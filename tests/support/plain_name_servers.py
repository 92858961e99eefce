"""Knot, NSD and BIND with an unsigned zone from a file, to compare their answers with those of the built-in
name server.
"""

import subprocess
from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack, contextmanager
from pathlib import Path

import dns.exception
import dns.flags
import dns.message
import dns.query

from sublet.dns.types import Apex, Record
from support.name_servers import READY_SECONDS
from support.programs import find_program
from support.serve_process import free_address, wait_until

_KNOT = """
server:
  listen: {host}@{port}
  rundir: "{folder}"
  udp-workers: 1
  tcp-workers: 1
  background-workers: 1
database:
  storage: "{folder}"
control:
  listen: "{folder}/k"
zone:
  - domain: {zone}
    file: "{file}"
    zonefile-sync: -1
    semantic-checks: off
"""
_NSD = """
server:
  ip-address: {host}@{port}
  server-count: 1
  username: ""
  zonesdir: "{folder}"
  database: ""
  zonelistfile: "{folder}/zones"
  xfrdfile: ""
  xfrdir: "{folder}"
  pidfile: ""
  rrl-ratelimit: 0
remote-control:
  control-enable: no
zone:
  name: {zone}
  zonefile: "{file}"
"""
_BIND = """
options {{
  directory "{folder}";
  listen-on port {port} {{ {host}; }};
  listen-on-v6 {{ none; }};
  recursion no;
  dnssec-validation no;
  notify no;
  pid-file none;
  session-keyfile none;
}};
controls {{ }};
zone "{zone}" {{ type primary; file "{file}"; check-names ignore; }};
"""
_SERVERS = {
    "Knot": (_KNOT, ("knotd", "-c")),
    "NSD": (_NSD, ("nsd", "-d", "-c")),
    "BIND": (_BIND, ("named", "-g", "-n", "1", "-c")),
}


def zone_text(apex: Apex, records: Sequence[Record]) -> str:
    """Return a zone as a file (RFC 1035, section 5)."""
    numbers = (
        apex.serial,
        apex.refresh_seconds,
        apex.retry_seconds,
        apex.expire_seconds,
        apex.negative_ttl_seconds,
    )
    soa = f"{apex.soa_mname}. {apex.soa_rname}. {' '.join(map(str, numbers))}"
    whole = [
        Record(apex.zone, "SOA", apex.ttl_seconds, soa),
        *(Record(apex.zone, "NS", apex.ttl_seconds, f"{host}.") for host in apex.nameservers),
        *apex.addresses,
        *records,
    ]
    return "".join(f"{each.owner}. {each.ttl_seconds} IN {each.type} {each.rdata}\n" for each in whole)


@contextmanager
def plain_name_servers(
    folder: Path, apex: Apex, records: Sequence[Record]
) -> Iterator[dict[str, tuple[str, int]]]:
    """Run the three servers, and yield their addresses by name."""
    folder.mkdir()
    file = folder / "zone"
    file.write_text(zone_text(apex, records), encoding="utf-8")
    with ExitStack() as stack:
        yield {name: stack.enter_context(_running(name, folder, apex.zone, file)) for name in _SERVERS}


@contextmanager
def _running(name: str, folder: Path, zone: str, file: Path) -> Iterator[tuple[str, int]]:
    template, (program, *words) = _SERVERS[name]
    host, port = free_address()
    own = folder / name
    own.mkdir()
    configuration = own / "conf"
    text = template.format(host=host, port=port, folder=own, zone=zone, file=file)
    configuration.write_text(text, encoding="utf-8")
    log = own / "log"
    with log.open("wb") as output:
        process = subprocess.Popen(
            [find_program(program), *words, str(configuration)], stdout=output, stderr=output
        )
    try:
        wait_until(_answers(process, log, (host, port), zone), READY_SECONDS)
        yield host, port
    finally:
        process.terminate()
        process.wait(60)


def _answers(
    process: "subprocess.Popen[bytes]", log: Path, address: tuple[str, int], zone: str
) -> Callable[[], bool]:
    def is_ready() -> bool:
        assert process.poll() is None, log.read_text(errors="replace")[-4000:]
        try:
            reply = dns.query.udp(dns.message.make_query(zone, "SOA"), address[0], 1, address[1])
        except (dns.exception.DNSException, OSError):
            return False
        return bool(reply.flags & dns.flags.AA)

    return is_ready
