"""`sublet zone config`: the complete configuration of a primary and its secondaries for a platform domain,
with new keys.
"""

import os
import re
import secrets
from base64 import b64encode
from collections.abc import Callable, Sequence
from enum import StrEnum
from pathlib import Path
from typing import Annotated, Any

import typer
from msgspec import Struct

from sublet.cli.options import Domain, invalid_option, parse_secondary, parse_server_address
from sublet.cli.output import Answer
from sublet.cli.session import Session
from sublet.config import split_list
from sublet.db import Tx
from sublet.dns.addresses import address_record_type
from sublet.dns.names import is_below, shown
from sublet.dns.types import Apex, Record, Secondary, TsigKey
from sublet.platform_domains.model import PlatformDomain
from sublet.platform_domains.platform_domain import find_platform_domain
from sublet.primaries import server_config
from sublet.primaries.server_config import Places, SecondarySite, ServerConfig, Site, key_name
from sublet.secret import Secret
from sublet.structs import replace
from sublet.subdomains.view_zone import apex_of, serial_of


class Server(StrEnum):
    """The supported primaries."""

    KNOT = "knot"
    BIND = "bind"
    POWERDNS = "powerdns"


_PRIMARIES: dict[Server, tuple[Places, Callable[[Site], ServerConfig]]] = {
    Server.KNOT: (server_config.KNOT_PLACES, server_config.knot_primary),
    Server.BIND: (server_config.BIND_PLACES, server_config.bind_primary),
    Server.POWERDNS: (server_config.POWERDNS_PLACES, server_config.powerdns_primary),
}


class _Machine(Struct, frozen=True):
    """The configuration of a machine. `name` is its folder below --output."""

    name: str
    title: str
    config: ServerConfig


def config(
    session: Session,
    domain: Domain,
    server: Annotated[Server, typer.Option(help="The primary's software.")],
    listen: Annotated[
        str | None,
        typer.Option(metavar="ADDRESS[:PORT]", help="The primary's listen address; default port: 53."),
    ] = None,
    directory: Annotated[
        str | None, typer.Option(metavar="DIR", help="The folder of the primary's state.")
    ] = None,
    secondary: Annotated[
        list[str] | None,
        typer.Option(
            metavar="HOST=ADDRESS[:PORT]", help="A secondary of the zone. May be given several times."
        ),
    ] = None,
    output: Annotated[
        Path | None, typer.Option(metavar="FOLDER", help="Write the files into this folder.")
    ] = None,
) -> Answer:
    """Print the configuration of a primary for a zone, with new keys and minimal rights."""
    addresses = split_list(session.settings.dns_addresses)
    if not (listen or addresses):
        sentence = "Give the primary's address with --listen, or set dns_addresses in the settings."
        raise invalid_option("listen", sentence)
    address, port = parse_server_address("listen", listen or addresses[0])
    secondaries = tuple(parse_secondary(each) for each in secondary or ())
    places, configure = _PRIMARIES[server]
    if directory is not None:
        places = replace(places, state=_check_directory(directory))
    platform_domain = session.read(find_platform_domain, domain)
    apex = _with_addresses(session.read(_apex, platform_domain), address, secondaries)
    _refuse_other_hosts(apex, [each.host for each in secondaries])
    name = key_name(apex.zone)
    site = Site(
        apex,
        _new_key(name),
        _new_key(f"{name}-transfer"),
        address,
        port,
        places,
        secondaries,
        platform_domain.accepts_records,
    )
    machines = [
        _Machine("primary", f"The primary, {server.value}", configure(site)),
        *(each for secondary in secondaries for each in _secondary_machines(site, secondary)),
        _Machine("sublet", "This service", server_config.sublet_config(site)),
    ]
    value = {
        "zone": apex.zone,
        "server": server.value,
        "machines": [_describe(each, with_text=output is None) for each in machines],
    }
    if output is None:
        return Answer(value, tuple(line for each in machines for line in _lines(each)))
    _write(output, machines)
    return Answer(
        value, (f"Written into {output}.", *(line for each in machines for line in _command_lines(each)))
    )


def _apex(tx: Tx, platform_domain: PlatformDomain) -> Apex:
    return apex_of(platform_domain, serial_of(tx, platform_domain))


def _new_key(name: str) -> TsigKey:
    return TsigKey(name, "hmac-sha256", Secret(b64encode(secrets.token_bytes(32)).decode()))


def _check_directory(text: str) -> str:
    # The path goes into files of four syntaxes and into commands. These characters need no quoting in any of
    # them.
    if not re.fullmatch(r"(/[A-Za-z0-9._-]+)+", text):
        sentence = (
            f"`{shown(text)}` is not valid. Give an absolute path of letters, digits, `.`, `_` and `-`."
        )
        raise invalid_option("directory", sentence)
    return text


def _refuse_other_hosts(apex: Apex, hosts: Sequence[str]) -> None:
    """Raise `ValidationFailed` for a secondary that no NS record names, or that is given twice."""
    for host in hosts:
        if host not in apex.nameservers:
            raise invalid_option(
                "secondary",
                f"`{host}` is not a nameserver of {apex.zone} ({', '.join(apex.nameservers)}). Check the "
                "spelling, or first name all nameservers with `sublet domain edit --apex-nameserver`.",
            )
    if len(set(hosts)) < len(hosts):
        raise invalid_option("secondary", "A secondary is given twice. Give each secondary once.")


def _with_addresses(apex: Apex, address: str, secondaries: Sequence[Secondary]) -> Apex:
    """Return the apex with an address for each nameserver inside the zone: its secondary's, or the primary's
    if it is no secondary.
    """
    known = {each.host: each.address for each in secondaries}
    inside = [host for host in apex.nameservers if is_below(host, apex.zone)]
    found = [(host, known.get(host, address)) for host in inside]
    return replace(
        apex,
        addresses=tuple(
            Record(host, address_record_type(each), apex.ttl_seconds, each) for host, each in found
        ),
    )


def _secondary_machines(site: Site, each: Secondary) -> tuple[_Machine, _Machine]:
    """Return the configurations of a secondary for NSD and for Knot. The operator chooses one of the two."""
    common = (site.apex.zone, site.transfer_key, each.address, each.port, site.address, site.port)
    with_nsd = server_config.nsd_secondary(SecondarySite(*common, server_config.NSD_PLACES, user="nsd"))
    with_knot = server_config.knot_secondary(SecondarySite(*common, server_config.KNOT_PLACES))
    return (
        _Machine(f"{each.host}-nsd", f"The secondary {each.host}, with NSD", with_nsd),
        _Machine(f"{each.host}-knot", f"The secondary {each.host}, with Knot instead", with_knot),
    )


def _describe(machine: _Machine, *, with_text: bool) -> dict[str, Any]:
    return {
        "name": machine.name,
        "files": [
            {
                "path": each.path,
                "owner": each.owner,
                "mode": each.mode,
                "secret": each.is_secret,
                "text": each.text if with_text else None,
            }
            for each in machine.config.files
        ],
        "steps": [{"command": each.line, "why": each.why} for each in machine.config.steps],
    }


def _lines(machine: _Machine) -> list[str]:
    """Return the files and commands of a machine as lines of text."""
    lines = [f"==== {machine.title} ====", ""]
    for file in machine.config.files:
        secret = "; a secret" if file.is_secret else ""
        lines += [f"---- {file.path} ({file.owner}, {file.mode}{secret})", file.text]
    return [*lines, "---- Then", *_commands(machine), ""]


def _command_lines(machine: _Machine) -> list[str]:
    return ["", f"{machine.title}, in {machine.name}/:", *_commands(machine)]


def _commands(machine: _Machine) -> list[str]:
    width = min(100, max(len(each.line) for each in machine.config.steps))
    return [f"    {each.line:<{width}}  # {each.why}" for each in machine.config.steps]


def _write(folder: Path, machines: Sequence[_Machine]) -> None:
    """Write every file into its machine's folder, secrets with mode 0600.

    Existing files are never overwritten.
    """
    files = [
        (folder / machine.name / file.name, file) for machine in machines for file in machine.config.files
    ]
    for path, _ in files:
        if path.exists():
            raise invalid_option(
                "output", f"{path} exists already, and keys are not overwritten. Give another folder."
            )
    try:
        for path, file in files:
            path.parent.mkdir(parents=True, exist_ok=True)
            mode = 0o600 if file.is_secret else 0o644
            descriptor = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL, mode)
            with os.fdopen(descriptor, "w", encoding="utf-8") as opened:
                opened.write(file.text)
    except OSError as error:
        raise invalid_option("output", f"Can't write {path}: {error.strerror}. Check the folder.") from None
