"""`sublet zone config`: the complete configuration of a real name server for a platform domain, with fresh keys."""

import os
import re
import secrets
from base64 import b64encode
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from enum import StrEnum
from ipaddress import ip_address
from pathlib import Path
from typing import Annotated, Any

import typer

from sublet.cli.output import Answer
from sublet.cli.session import Session
from sublet.config import SettingsError, parse_listen
from sublet.dns.names import InvalidName, is_below, parse_host_name, shown
from sublet.dns.server_config import bind, knot, nsd, powerdns
from sublet.dns.server_config.model import (
    ConfigFile,
    Places,
    SecondarySite,
    ServerConfig,
    Site,
    Step,
    key_name,
)
from sublet.dns.types import Apex, Record, Secondary, TsigKey
from sublet.errors import FieldError, ValidationFailed, validation_failed
from sublet.platform_domains.find import find_platform_domain
from sublet.platform_domains.view_zone import apex_of
from sublet.secret import Secret


class Server(StrEnum):
    """The servers that a configuration is made for."""

    KNOT = "knot"
    BIND = "bind"
    POWERDNS = "powerdns"


_PRIMARIES: dict[Server, tuple[Places, Callable[[Site], ServerConfig]]] = {
    Server.KNOT: (knot.PLACES, knot.knot_primary),
    Server.BIND: (bind.PLACES, bind.bind_primary),
    Server.POWERDNS: (powerdns.PLACES, powerdns.powerdns_primary),
}


@dataclass(frozen=True, slots=True)
class _Machine:
    """What is to be done on one machine; `name` is the folder that --output makes for it."""

    name: str
    title: str
    config: ServerConfig


def config(
    session: Session,
    domain: Annotated[str, typer.Argument(metavar="DOMAIN", help="The platform domain's name or id.")],
    server: Annotated[Server, typer.Option("--server", help="Which server is the primary.")],
    listen: Annotated[
        str | None,
        typer.Option(
            "--listen", metavar="ADDRESS[:PORT]", help="Where the primary listens; port 53 if not said."
        ),
    ] = None,
    directory: Annotated[
        str | None, typer.Option("--directory", metavar="DIR", help="Where the primary keeps its state.")
    ] = None,
    secondary: Annotated[
        list[str] | None,
        typer.Option("--secondary", metavar="HOST=ADDRESS[:PORT]", help="Repeated: the zone's secondaries."),
    ] = None,
    output: Annotated[
        Path | None, typer.Option("--output", metavar="FOLDER", help="Write the files into this folder.")
    ] = None,
) -> Answer:
    """Print the configuration of a real name server for a zone, with fresh keys and the fewest rights."""
    addresses = [each.strip() for each in session.settings.dns_addresses.split(",") if each.strip()]
    address, port = _parse_place("listen", listen or (addresses[0] if addresses else ""))
    secondaries = tuple(_parse_secondary(each) for each in secondary or ())
    places, configure = _PRIMARIES[server]
    if directory is not None:
        places = replace(places, state=_check_directory(directory))
    platform_domain = session.read(lambda tx: find_platform_domain(tx, domain))
    apex = _with_addresses(apex_of(platform_domain), address, secondaries)
    name = key_name(apex.zone)
    site = Site(apex, _fresh_key(name), _fresh_key(f"{name}-transfer"), address, port, places, secondaries)
    machines = [
        _Machine("primary", f"The primary, {server.value}", configure(site)),
        *(each for secondary in secondaries for each in _of_secondary(site, secondary)),
        _Machine("sublet", "This service", _own(site)),
    ]
    value = {
        "zone": apex.zone,
        "server": server.value,
        "machines": [_describe(each, with_text=output is None) for each in machines],
    }
    if output is None:
        return Answer(value, tuple(line for each in machines for line in _lines(each)))
    _write(output, machines)
    return Answer(value, (f"Written into {output}.", *(line for each in machines for line in _to_do(each))))


def _fresh_key(name: str) -> TsigKey:
    return TsigKey(name, "hmac-sha256", Secret(b64encode(secrets.token_bytes(32)).decode()))


def _refused(field: str, sentence: str) -> ValidationFailed:
    return validation_failed([FieldError(field, "value_invalid", sentence)])


def _parse_place(field: str, text: str) -> tuple[str, int]:
    """Return address and port of `ADDRESS`, `ADDRESS:PORT` or `[ADDRESS]:PORT`."""
    if not text:
        raise _refused(
            field, "Say where the primary listens, with --listen (or dns_addresses in the settings)."
        )
    host, port = text, 53
    try:
        ip_address(host)
    except ValueError:
        try:
            host, port = parse_listen(field, text)
            ip_address(host)
        except (SettingsError, ValueError):
            raise _refused(field, f"`{shown(text)}` is no IP address, nor one with a port.") from None
    if port == 0 or ip_address(host).is_unspecified:
        raise _refused(field, f"`{shown(text)}` is not where others can reach it; give the very address.")
    return str(ip_address(host)), port


def _parse_secondary(text: str) -> Secondary:
    host, equals, place = text.partition("=")
    if not equals:
        raise _refused(
            "secondary", f"`{shown(text)}` is not HOST=ADDRESS, such as ns2.example.net=192.0.2.2."
        )
    try:
        return Secondary(parse_host_name(host), *_parse_place("secondary", place))
    except InvalidName as error:
        raise _refused("secondary", str(error)) from None


def _check_directory(text: str) -> str:
    # It goes into files of four different syntaxes and into commands, so it has what none of them treats in a special way.
    if not re.fullmatch(r"(/[A-Za-z0-9._-]+)+", text):
        raise _refused(
            "directory", f"`{shown(text)}` is no absolute path of letters, digits, `.`, `_` and `-`."
        )
    return text


def _with_addresses(apex: Apex, address: str, secondaries: Sequence[Secondary]) -> Apex:
    """Return the apex with the addresses of its nameservers inside the zone: a secondary's own, or else the primary's."""
    known = {each.host: each.address for each in secondaries}
    inside = [host for host in apex.nameservers if is_below(host, apex.zone)]
    found = [(host, known.get(host, address)) for host in inside]
    return replace(
        apex,
        addresses=tuple(
            Record(host, "A" if ip_address(each).version == 4 else "AAAA", apex.ttl_seconds, each)
            for host, each in found
        ),
    )


def _of_secondary(site: Site, each: Secondary) -> tuple[_Machine, _Machine]:
    """Return both ways to run a secondary; the operator takes one of them."""
    common = (site.apex.zone, site.transfer_key, each.address, each.port, site.address, site.port)
    with_nsd = nsd.nsd_secondary(SecondarySite(*common, nsd.PLACES, user="nsd"))
    with_knot = knot.knot_secondary(SecondarySite(*common, knot.PLACES))
    return (
        _Machine(f"{each.host}-nsd", f"The secondary {each.host}, with NSD", with_nsd),
        _Machine(f"{each.host}-knot", f"The secondary {each.host}, with Knot instead", with_knot),
    )


def _own(site: Site) -> ServerConfig:
    """Return what this service needs to know: the key in a file, the section of its settings, the platform domain's choice."""
    zone = site.apex.zone
    name = zone.replace(".", "-")
    key_path = f"/etc/sublet/{site.key.name}.key"
    section = (
        f"[primaries.{name}]\n"
        f'address = "{site.address}"\n'
        f"port = {site.port}\n"
        f'key_name = "{site.key.name}"\n'
        f'key_algorithm = "{site.key.algorithm}"\n'
        f'key_file = "{key_path}"\n'
    )
    watched = "".join(f" --secondary {each.host}={_place(each)}" for each in site.secondaries)
    return ServerConfig(
        (
            ConfigFile(key_path, f"{site.key.secret.reveal()}\n", "sublet:sublet", is_secret=True),
            ConfigFile("/etc/sublet/primary.toml", section, "root:root"),
        ),
        (
            Step(
                f"install -D -o sublet -g sublet -m 0400 {site.key.name}.key {key_path}",
                "The key, for the user that runs the service.",
                of_machine=True,
            ),
            Step("cat primary.toml >> /etc/sublet.toml", "Into the settings file.", of_machine=True),
            Step(
                "systemctl restart sublet",
                "It reads its settings at the start. With the roles apart: sublet-worker and sublet-api.",
                of_machine=True,
            ),
            Step(f"sublet domain edit {zone} --primary {name}{watched}", "From now on it publishes there."),
        ),
    )


def _place(each: Secondary) -> str:
    host = f"[{each.address}]" if ":" in each.address and each.port != 53 else each.address
    return host if each.port == 53 else f"{host}:{each.port}"


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
    """Return a machine's files and commands for people."""
    lines = [f"==== {machine.title} ====", ""]
    for file in machine.config.files:
        secret = "; a secret" if file.is_secret else ""
        lines += [f"---- {file.path} ({file.owner}, {file.mode}{secret})", file.text]
    return [*lines, "---- Then", *_commands(machine), ""]


def _to_do(machine: _Machine) -> list[str]:
    return ["", f"{machine.title}, in {machine.name}/:", *_commands(machine)]


def _commands(machine: _Machine) -> list[str]:
    width = min(100, max(len(each.line) for each in machine.config.steps))
    return [f"    {each.line:<{width}}  # {each.why}" for each in machine.config.steps]


def _write(folder: Path, machines: Sequence[_Machine]) -> None:
    """Write every file under its last name, a folder for each machine; secrets for the user alone, and nothing over another."""
    files = [
        (folder / machine.name / file.name, file) for machine in machines for file in machine.config.files
    ]
    for path, _ in files:
        if path.exists():
            raise _refused("output", f"{path} is there already; keys are not written over.")
    try:
        for path, file in files:
            path.parent.mkdir(parents=True, exist_ok=True)
            mode = 0o600 if file.is_secret else 0o644
            descriptor = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL, mode)
            with os.fdopen(descriptor, "w", encoding="utf-8") as opened:
                opened.write(file.text)
    except OSError as error:
        raise _refused("output", f"Can't write {path}: {error.strerror}.") from None
