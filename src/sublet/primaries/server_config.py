"""Complete configurations of real name servers with the fewest rights, from the templates in `server_templates`.

Knot DNS 3.2, BIND 9.18 and PowerDNS 4.7 with SQLite as primaries, Knot and NSD 4.6 as secondaries, or newer versions.
"""

from dataclasses import dataclass
from functools import cache
from hashlib import sha256
from pathlib import PurePosixPath

import jinja2

from sublet.dns.types import Apex, Secondary, TsigKey

REFRESH_SECONDS = 5
"""How long a secondary waits at most until it asks its primary for the serial without a NOTIFY."""
_POWERDNS_SCHEMA = "/usr/share/pdns-backend-sqlite3/schema/schema.sqlite3.sql"


@dataclass(frozen=True, slots=True)
class Places:
    """The directories of a server: its configuration, its state (zones, journals, keys), its sockets and process ids."""

    configuration: str
    state: str
    run: str


# Debian's directories; its AppArmor profile lets BIND write in no others.
KNOT_PLACES = Places("/etc/knot", "/var/lib/knot", "/run/knot")
BIND_PLACES = Places("/etc/bind", "/var/lib/bind", "/run/named")
POWERDNS_PLACES = Places("/etc/powerdns", "/var/lib/powerdns", "/run/pdns")
NSD_PLACES = Places("/etc/nsd", "/var/lib/nsd", "/run/nsd")


@dataclass(frozen=True, slots=True)
class Site:
    """The facts of a primary; its zone is `apex.zone`.

    `key` may update the zone, and transfer it for the check. `transfer_key` is the secondaries': it may only transfer. The
    server listens at `address` and `port`. Secondaries get NOTIFY from `address`, so it is one address, not "any".
    """

    apex: Apex
    key: TsigKey
    transfer_key: TsigKey
    address: str
    port: int
    places: Places
    secondaries: tuple[Secondary, ...] = ()


@dataclass(frozen=True, slots=True)
class SecondarySite:
    """The facts of a secondary: where it listens, its primary, and the key for NOTIFY and transfers.

    A server that is started as root changes to `user`; if that is empty, it stays root.
    """

    zone: str
    transfer_key: TsigKey
    address: str
    port: int
    primary_address: str
    primary_port: int
    places: Places
    user: str = ""


@dataclass(frozen=True, slots=True)
class ConfigFile:
    """A file: its path, its text, its owner ("user:group"), and whether its text has a secret."""

    path: str
    text: str
    owner: str
    is_secret: bool = False

    @property
    def mode(self) -> str:
        """The permissions in octal."""
        return "0640" if self.is_secret else "0644"

    @property
    def name(self) -> str:
        """The last part of the path, unique within a configuration."""
        return PurePosixPath(self.path).name


@dataclass(frozen=True, slots=True)
class Step:
    """A command to run, and why.

    `user` runs it, root if empty. `of_machine` is true if it is about the machine (packages, files, services) and not the
    server, so that a server that is started in another way needs another command.
    """

    command: str
    why: str
    user: str = ""
    of_machine: bool = False

    @property
    def line(self) -> str:
        """The command as root types it."""
        return f"runuser -u {self.user} -- {self.command}" if self.user else self.command


@dataclass(frozen=True, slots=True)
class ServerConfig:
    """All files, and the commands, in order, after which a fresh machine serves."""

    files: tuple[ConfigFile, ...]
    steps: tuple[Step, ...]


def bind_primary(site: Site) -> ServerConfig:
    """Return BIND's configuration as primary of a zone that it signs.

    An update may only change names below the apex, with the types of a delegation, and TXT at the fence's name.
    """
    zone, places = site.apex.zone, site.places
    configuration, keys = f"{places.configuration}/named.conf", _keys_path(places, zone)
    files = (
        ConfigFile(configuration, _render("bind.conf", site, zone, keys=keys), "root:bind"),
        ConfigFile(keys, _render("bind.keys", site, zone), "root:bind", is_secret=True),
        _zone_file(site, "bind:bind"),
    )
    return ServerConfig(
        files,
        (
            *_install_steps("bind9 bind9-utils bind9-dnsutils", files),
            Step(f"named-checkconf -z {configuration}", "Says that the zone is `loaded`."),
            Step("systemctl restart named", "It creates a key and signs the zone.", of_machine=True),
        ),
    )


def knot_primary(site: Site) -> ServerConfig:
    """Return Knot's configuration as primary of a zone that it signs.

    An update may only change names below the apex, and only the types of a delegation and TXT (the fence). Knot compares
    each record of an update with one rule at a time, so TXT can't be limited to the fence's name.
    """
    zone, places = site.apex.zone, site.places
    configuration, keys = f"{places.configuration}/knot.conf", _keys_path(places, zone)
    files = (
        ConfigFile(configuration, _render("knot_primary.conf", site, zone, keys=keys), "root:knot"),
        ConfigFile(keys, _render("knot.keys", site, zone), "root:knot", is_secret=True),
        _zone_file(site, "knot:knot"),
    )
    return ServerConfig(
        files,
        (
            *_install_steps("knot knot-dnsutils", files),
            Step(f"knotc -c {configuration} conf-check", "Says `Configuration is valid`."),
            Step("systemctl restart knot", "It signs the zone when it loads it.", of_machine=True),
        ),
    )


def powerdns_primary(site: Site) -> ServerConfig:
    """Return PowerDNS's configuration as primary of a zone that it signs as it answers.

    An update may only change names below the apex, with the types of a delegation, and TXT at the fence's name. This policy
    is a Lua script, since the settings can only name the key. Keys and rights of the zone are in the database.
    """
    zone, places = site.apex.zone, site.places
    database = f"{places.state}/pdns.sqlite3"
    zone_file = _zone_file(site, "pdns:pdns")
    keys = ConfigFile(
        f"{places.state}/sublet-{zone}.keys.sql",
        _render("powerdns.keys.sql", site, zone),
        "pdns:pdns",
        is_secret=True,
    )
    files = (
        ConfigFile(
            f"{places.configuration}/pdns.conf",
            _render("powerdns.conf", site, zone, database=database),
            "root:pdns",
        ),
        ConfigFile(
            f"{places.configuration}/update-policy.lua",
            _render("powerdns_policy.lua", site, zone),
            "root:pdns",
        ),
        keys,
        zone_file,
    )
    tool = f"pdnsutil --config-dir={places.configuration}"
    return ServerConfig(
        files,
        (
            *_install_steps("pdns-server pdns-backend-sqlite3 sqlite3", files),
            Step(f'sqlite3 {database} ".read {_POWERDNS_SCHEMA}"', "An empty database.", "pdns"),
            Step(f"chmod 0600 {database}", "It will hold the secrets and the signing key.", "pdns"),
            Step(f'sqlite3 {database} ".read {keys.path}"', "The keys.", "pdns"),
            *(
                Step(f"{tool} {words}", why, "pdns")
                for words, why in _powerdns_zone_commands(site, zone_file.path)
            ),
            Step(f"rm {keys.path}", "The keys are in the database now.", of_machine=True),
            Step("systemctl restart pdns", "It serves the zone.", of_machine=True),
        ),
    )


def _powerdns_zone_commands(site: Site, zone_path: str) -> list[tuple[str, str]]:
    zone, key, transfer_key = site.apex.zone, site.key.name, site.transfer_key.name
    kind = "primary" if site.secondaries else "native"
    commands = [
        (f"load-zone {zone} {zone_path}", "The zone at first."),
        (f"set-kind {zone} {kind}", "Native stores no notifications; primary is for secondaries."),
        (f"secure-zone {zone}", "A key (ECDSA P-256)."),
        (
            f"set-nsec3 {zone} '1 0 0 -'",
            "RFC 9276: no iterations, no salt; NSEC3 keeps names from being walked.",
        ),
        (f"set-meta {zone} TSIG-ALLOW-DNSUPDATE {key}", "Sublet's key may update, within update-policy.lua."),
        (
            f"set-meta {zone} ALLOW-DNSUPDATE-FROM 0.0.0.0/0 ::/0",
            "From any address, since the key authenticates.",
        ),
        (
            f"set-meta {zone} TSIG-ALLOW-AXFR {transfer_key} {key}",
            "Keys that may transfer; the first signs NOTIFY.",
        ),
        (f"set-meta {zone} SOA-EDIT INCEPTION-EPOCH", "Each week's new signatures come with a new serial."),
        (f"set-meta {zone} SOA-EDIT-DNSUPDATE SOA-EDIT-INCREASE", "Each update too."),
    ]
    if site.secondaries:
        targets = " ".join(
            f"[{each.address}]:{each.port}" if ":" in each.address else f"{each.address}:{each.port}"
            for each in site.secondaries
        )
        commands += [
            (f"set-meta {zone} ALSO-NOTIFY {targets}", "The secondaries that it notifies."),
            (f"set-meta {zone} NOTIFY-DNSUPDATE 1", "At once, not at the next cycle."),
        ]
    return [*commands, (f"rectify-zone {zone}", "Puts the names in NSEC3's order.")]


def knot_secondary(site: SecondarySite) -> ServerConfig:
    """Return Knot's configuration as secondary: notified by the primary, with the primary's signatures."""
    configuration = f"{site.places.configuration}/knot.conf"
    files = _secondary_files(site, configuration, "knot_secondary.conf", "knot.keys", "root:knot")
    return ServerConfig(
        files,
        (
            *_install_steps("knot", files),
            Step(f"knotc -c {configuration} conf-check", "Says `Configuration is valid`."),
            Step("systemctl restart knot", "It transfers the zone.", of_machine=True),
        ),
    )


def nsd_secondary(site: SecondarySite) -> ServerConfig:
    """Return NSD's configuration as secondary: notified by the primary, with the primary's signatures."""
    configuration = f"{site.places.configuration}/nsd.conf"
    files = _secondary_files(site, configuration, "nsd.conf", "nsd.keys", "root:nsd")
    return ServerConfig(
        files,
        (
            *_install_steps("nsd", files),
            Step(f"nsd-checkconf {configuration}", "Says nothing if the configuration is valid."),
            Step("systemctl restart nsd", "It transfers the zone.", of_machine=True),
        ),
    )


def _secondary_files(
    site: SecondarySite, configuration: str, template: str, keys_template: str, owner: str
) -> tuple[ConfigFile, ...]:
    keys = _keys_path(site.places, site.zone)
    return (
        ConfigFile(configuration, _render(template, site, site.zone, keys=keys), owner),
        ConfigFile(keys, _render(keys_template, site, site.zone), owner, is_secret=True),
    )


def sublet_of(site: Site) -> ServerConfig:
    """Return what this service needs to publish on a primary: the key in a file, a section of its settings, the commands."""
    zone = site.apex.zone
    name = zone.replace(".", "-")
    key_path = f"/etc/sublet/{site.key.name}.key"
    watched = "".join(f" --secondary {each.host}={_shown_place(each)}" for each in site.secondaries)
    return ServerConfig(
        (
            ConfigFile(key_path, f"{site.key.secret.reveal()}\n", "sublet:sublet", is_secret=True),
            ConfigFile(
                "/etc/sublet/primary.toml",
                _render("sublet.toml", site, zone, name=name, key_path=key_path),
                "root:root",
            ),
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
                "It reads its settings at the start. Separate roles: sublet-worker and sublet-api.",
                of_machine=True,
            ),
            Step(f"sublet domain edit {zone} --primary {name}{watched}", "From now on it publishes there."),
        ),
    )


def _shown_place(each: Secondary) -> str:
    if each.port == 53:
        return each.address
    return f"[{each.address}]:{each.port}" if ":" in each.address else f"{each.address}:{each.port}"


@cache
def _templates() -> jinja2.Environment:
    return jinja2.Environment(
        loader=jinja2.PackageLoader("sublet.primaries", "server_templates"),
        undefined=jinja2.StrictUndefined,
        autoescape=False,  # noqa: S701 - no HTML
        trim_blocks=True,
        lstrip_blocks=True,
        keep_trailing_newline=True,
    )


def _render(template: str, site: Site | SecondarySite, zone: str, **facts: str) -> str:
    key_list = (site.key, site.transfer_key) if isinstance(site, Site) else (site.transfer_key,)
    return (
        _templates()
        .get_template(f"{template}.j2")
        .render(site=site, zone=zone, key_list=key_list, refresh_seconds=REFRESH_SECONDS, **facts)
    )


def _keys_path(places: Places, zone: str) -> str:
    return f"{places.configuration}/sublet-{zone}.keys"


def _zone_file(site: Site, owner: str) -> ConfigFile:
    """Return the zone that a primary starts from, a master file with absolute names (RFC 1035, section 5)."""
    zone = site.apex.zone
    return ConfigFile(f"{site.places.state}/{zone}.zone", _render("primary.zone", site, zone), owner)


def _install_steps(packages: str, files: tuple[ConfigFile, ...]) -> tuple[Step, ...]:
    """Return the first steps of every server: install its packages and the files."""
    steps = [Step(f"apt-get install --no-install-recommends {packages}", "The server.", of_machine=True)]
    for file in files:
        user, _, group = file.owner.partition(":")
        command = f"install -D -o {user} -g {group} -m {file.mode} {file.name} {file.path}"
        steps.append(
            Step(command, "With the secret." if file.is_secret else "From this folder.", of_machine=True)
        )
    return tuple(steps)


def key_name(zone: str) -> str:
    """Return the name of our key for a zone: one label of 54 octets at most, so that it needs no dots.

    The secondaries' key has `-transfer` after it; a label has 63 octets at most.
    """
    name = f"sublet-{zone.replace('.', '-')}"
    if len(name) <= 54:
        return name
    return f"{name[:45]}-{sha256(zone.encode()).hexdigest()[:8]}"
