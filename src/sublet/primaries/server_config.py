"""Write complete configurations of name servers with minimal rights, from the templates in
`server_templates`.

The primaries are Knot DNS 3.2, BIND 9.18 and PowerDNS 4.7 with SQLite, the secondaries Knot and NSD 4.6, or
newer versions.
"""

from functools import cache
from hashlib import sha256
from pathlib import PurePosixPath

import jinja2
from msgspec import Struct

from sublet.dns.records import apex_records
from sublet.dns.types import DELEGATION_TYPES, PUBLISHED_TYPES, Apex, Secondary, TsigKey

REFRESH_SECONDS = 5
"""The maximum interval at which a secondary asks its primary for the serial, in case a NOTIFY is lost."""
_INITIAL_ZONE = (
    "; The initial zone. Dynamic updates add the registered names, and the server stores the zone from "
    "then on."
)
_POWERDNS_SCHEMA = "/usr/share/pdns-backend-sqlite3/schema/schema.sqlite3.sql"


class Places(Struct, frozen=True):
    """The directories of a server: for its configuration, its state (zones, journals, keys), and its sockets
    and process ids.
    """

    configuration: str
    state: str
    run: str


# The directories of Debian, whose AppArmor profile allows BIND to write only in these.
KNOT_PLACES = Places("/etc/knot", "/var/lib/knot", "/run/knot")
BIND_PLACES = Places("/etc/bind", "/var/lib/bind", "/run/named")
POWERDNS_PLACES = Places("/etc/powerdns", "/var/lib/powerdns", "/run/pdns")
NSD_PLACES = Places("/etc/nsd", "/var/lib/nsd", "/run/nsd")


class Site(Struct, frozen=True):
    """The input for the configuration of a primary.

    `key` may update the zone, and transfer the zone for checks. `transfer_key` is for the secondaries, and
    may only transfer. The server listens at `address` and `port`. `address` is one address, not "any",
    because secondaries accept NOTIFY only from this address. With `records` the key may also change the types
    of records that names have instead of nameservers.
    """

    apex: Apex
    key: TsigKey
    transfer_key: TsigKey
    address: str
    port: int
    places: Places
    secondaries: tuple[Secondary, ...] = ()
    records: bool = False

    @property
    def types(self) -> tuple[str, ...]:
        """The record types that the key may change below the apex."""
        return PUBLISHED_TYPES if self.records else DELEGATION_TYPES

    @property
    def zone(self) -> str:
        """The name of the zone."""
        return self.apex.zone


class SecondarySite(Struct, frozen=True):
    """The input for the configuration of a secondary: its address, its primary, and the key for NOTIFY and
    transfers.

    A server that starts as root changes to `user`. With an empty `user` the server stays root.
    """

    zone: str
    transfer_key: TsigKey
    address: str
    port: int
    primary_address: str
    primary_port: int
    places: Places
    user: str = ""


class ConfigFile(Struct, frozen=True):
    """A file. `owner` has the form "user:group". `is_secret` is True if the text has a secret."""

    path: str
    text: str
    owner: str
    is_secret: bool = False

    @property
    def mode(self) -> str:
        """The permissions in octal. A server whose files belong to root reads its secrets by its group."""
        if not self.is_secret:
            return "0644"
        return "0640" if self.owner.startswith("root:") else "0400"

    @property
    def name(self) -> str:
        """The last part of the path, unique within a configuration."""
        return PurePosixPath(self.path).name


class Step(Struct, frozen=True):
    """A command, and the reason for it. `user` runs the command; empty for root."""

    command: str
    why: str
    user: str = ""

    @property
    def line(self) -> str:
        """The command line that root runs."""
        return f"runuser -u {self.user} -- {self.command}" if self.user else self.command


class ServerConfig(Struct, frozen=True):
    """The files of a server, and the commands that set up a new machine, in order."""

    files: tuple[ConfigFile, ...]
    steps: tuple[Step, ...]


def bind_primary(site: Site) -> ServerConfig:
    """Return the configuration of BIND as the primary that signs a zone.

    An update with Sublet's key may only change names below the apex, with the types of `Site.types`, and TXT
    at the fence's name.
    """
    configuration = f"{site.places.configuration}/named.conf"
    return _with_install_steps(
        "bind9 bind9-utils bind9-dnsutils",
        (*_text_files(site, configuration, "bind.conf", "bind.keys", "bind"), _zone_file(site, "bind")),
        Step(f"named-checkconf -z {configuration}", "Prints that the zone is `loaded`."),
        Step("systemctl restart named", "BIND creates a key and signs the zone."),
    )


def knot_primary(site: Site) -> ServerConfig:
    """Return the configuration of Knot as the primary that signs a zone.

    An update may only change names below the apex, with the types of `Site.types` and TXT. Knot compares each
    record of an update with one rule at a time, so TXT can't be limited to the fence's name.
    """
    configuration = f"{site.places.configuration}/knot.conf"
    return _with_install_steps(
        "knot knot-dnsutils",
        _text_files(site, configuration, "knot_primary.conf", "knot.keys", "knot"),
        Step(f"knotc -c {configuration} conf-check", "Prints `Configuration is valid`."),
        Step("systemctl restart knot", "Knot starts, without a zone yet."),
        *(Step(f"knotc -c {configuration} -b {words}", why) for words, why in _knot_zone_commands(site)),
    )


def _knot_zone_commands(site: Site) -> list[tuple[str, str]]:
    zone = site.zone
    return [
        (f"zone-begin {zone}", "The initial zone."),
        *(
            (
                f"zone-set {zone} {each.owner}. {each.ttl_seconds} {each.type} {each.rdata}",
                f"Its {each.type} record.",
            )
            for each in (*apex_records(site.apex), *site.apex.addresses)
        ),
        (f"zone-commit {zone}", "Knot signs the zone and serves it."),
    ]


def powerdns_primary(site: Site) -> ServerConfig:
    """Return the configuration of PowerDNS as the primary that signs a zone, answer by answer.

    An update may only change names below the apex, with the types of `Site.types`, and TXT at the fence's
    name. A Lua script enforces these rules, because the settings of PowerDNS can only restrict updates by
    key. The database has the keys and rights.
    """
    places = site.places
    database = f"{places.state}/pdns.sqlite3"
    configuration = _render("powerdns.conf", site, database=database)
    keys = _render("powerdns.keys.sql", site)
    keys_path = f"{places.state}/sublet-{site.zone}.keys.sql"
    policy = _render("powerdns_policy.lua", site)
    zone_file = _zone_file(site, "pdns")
    tool = f"pdnsutil --config-dir={places.configuration}"
    return _with_install_steps(
        "pdns-server pdns-backend-sqlite3 sqlite3",
        (
            ConfigFile(f"{places.configuration}/pdns.conf", configuration, "root:pdns"),
            ConfigFile(f"{places.configuration}/update-policy.lua", policy, "root:pdns"),
            ConfigFile(keys_path, keys, "pdns:pdns", is_secret=True),
            zone_file,
        ),
        Step(f'sqlite3 {database} ".read {_POWERDNS_SCHEMA}"', "An empty database.", "pdns"),
        Step(f"chmod 0600 {database}", "It will have the secrets and the signing key.", "pdns"),
        Step(f'sqlite3 {database} ".read {keys_path}"', "The keys.", "pdns"),
        *(
            Step(f"{tool} {words}", why, "pdns")
            for words, why in _powerdns_zone_commands(site, zone_file.path)
        ),
        Step(f"rm {keys_path}", "The database has the keys now."),
        Step("systemctl restart pdns", "PowerDNS serves the zone."),
    )


def _powerdns_zone_commands(site: Site, zone_path: str) -> list[tuple[str, str]]:
    zone, key, transfer_key = site.zone, site.key.name, site.transfer_key.name
    kind = "primary" if site.secondaries else "native"
    commands = [
        (f"load-zone {zone} {zone_path}", "The initial zone."),
        (f"set-kind {zone} {kind}", "A native zone sends no NOTIFY; a primary zone does."),
        (f"secure-zone {zone}", "It creates a key (ECDSA P-256)."),
        (
            f"set-nsec3 {zone} '1 0 0 -'",
            "RFC 9276: no iterations, no salt; NSEC3 prevents zone walking.",
        ),
        (
            f"set-meta {zone} TSIG-ALLOW-DNSUPDATE {key}",
            "Sublet's key may update what update-policy.lua allows.",
        ),
        (
            f"set-meta {zone} ALLOW-DNSUPDATE-FROM 0.0.0.0/0 ::/0",
            "From any address, because the key authenticates.",
        ),
        (
            f"set-meta {zone} TSIG-ALLOW-AXFR {transfer_key} {key}",
            "Keys that may transfer; the first signs NOTIFY.",
        ),
        (
            f"set-meta {zone} SOA-EDIT INCEPTION-EPOCH",
            "Raises the serial each week, when PowerDNS renews the signatures.",
        ),
        (f"set-meta {zone} SOA-EDIT-DNSUPDATE SOA-EDIT-INCREASE", "Each update raises it too."),
    ]
    if site.secondaries:
        targets = " ".join(map(_address_and_port, site.secondaries))
        commands += [
            (f"set-meta {zone} ALSO-NOTIFY {targets}", "The secondaries that get NOTIFY."),
            (f"set-meta {zone} NOTIFY-DNSUPDATE 1", "NOTIFY at once, not at the next cycle."),
        ]
    return [*commands, (f"rectify-zone {zone}", "Computes the order of the names for NSEC3.")]


def knot_secondary(site: SecondarySite) -> ServerConfig:
    """Return the configuration of Knot as a secondary, which gets NOTIFY and serves the
    primary's signatures.
    """
    configuration = f"{site.places.configuration}/knot.conf"
    return _with_install_steps(
        "knot",
        _text_files(site, configuration, "knot_secondary.conf", "knot.keys", "knot"),
        Step(f"knotc -c {configuration} conf-check", "Prints `Configuration is valid`."),
        Step("systemctl restart knot", "Knot transfers the zone."),
    )


def nsd_secondary(site: SecondarySite) -> ServerConfig:
    """Return the configuration of NSD as a secondary, which gets NOTIFY and serves the
    primary's signatures.
    """
    configuration = f"{site.places.configuration}/nsd.conf"
    return _with_install_steps(
        "nsd",
        _text_files(site, configuration, "nsd.conf", "nsd.keys", "nsd"),
        Step(f"nsd-checkconf {configuration}", "Prints nothing if the configuration is valid."),
        Step("systemctl restart nsd", "NSD transfers the zone."),
    )


def sublet_config(site: Site) -> ServerConfig:
    """Return the configuration of Sublet for a primary: the key file, a section of the settings, the
    commands.
    """
    name = site.key.name.removeprefix("sublet-")
    key_path = f"/etc/sublet/{site.key.name}.key"
    watched = "".join(f" --secondary {each.host}={_address_and_port(each)}" for each in site.secondaries)
    return ServerConfig(
        (
            ConfigFile(key_path, f"{site.key.secret.reveal()}\n", "sublet:sublet", is_secret=True),
            ConfigFile(
                "/etc/sublet/primary.toml",
                _render("sublet.toml", site, name=name, key_path=key_path),
                "root:root",
            ),
        ),
        (
            Step(
                f"install -D -o sublet -g sublet -m 0400 {site.key.name}.key {key_path}",
                "The key, for the user that runs the service.",
            ),
            Step("cat primary.toml >> /etc/sublet.toml", "Add the primary to the settings."),
            Step(
                "systemctl restart sublet",
                "Sublet reads its settings at the start. With separate roles restart sublet-worker and "
                "sublet-api.",
            ),
            Step(
                f"sublet domain edit {site.zone} --primary {name}{watched}",
                "Sublet publishes there from now on.",
            ),
        ),
    )


def _address_and_port(each: Secondary) -> str:
    """Return the address of a secondary, with the port if that isn't 53."""
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


def _render(template: str, site: Site | SecondarySite, **values: str) -> str:
    key_list = (site.key, site.transfer_key) if isinstance(site, Site) else (site.transfer_key,)
    return (
        _templates()
        .get_template(f"{template}.j2")
        .render(site=site, zone=site.zone, key_list=key_list, refresh_seconds=REFRESH_SECONDS, **values)
    )


def _text_files(
    site: Site | SecondarySite, configuration: str, template: str, keys_template: str, group: str
) -> tuple[ConfigFile, ConfigFile]:
    """Return the configuration file at the path `configuration`, and the file with keys that the
    configuration includes.
    """
    keys = f"{site.places.configuration}/sublet-{site.zone}.keys"
    owner = f"root:{group}"
    return (
        ConfigFile(configuration, _render(template, site, keys=keys), owner),
        ConfigFile(keys, _render(keys_template, site), owner, is_secret=True),
    )


def _zone_file(site: Site, user: str) -> ConfigFile:
    """Return the initial zone of a primary, a master file with absolute names (RFC 1035, section 5)."""
    path = f"{site.places.state}/{site.zone}.zone"
    records = "".join(
        f"{each.owner}. {each.ttl_seconds} IN {each.type} {each.rdata}\n"
        for each in (*apex_records(site.apex), *site.apex.addresses)
    )
    return ConfigFile(path, f"{_INITIAL_ZONE}\n{records}", f"{user}:{user}")


def _with_install_steps(packages: str, files: tuple[ConfigFile, ...], *steps: Step) -> ServerConfig:
    """Return the configuration of a server. Steps that install packages and files come before `steps`."""
    install = [Step(f"apt-get install --no-install-recommends {packages}", "The server.")]
    for file in files:
        user, _, group = file.owner.partition(":")
        command = f"install -D -o {user} -g {group} -m {file.mode} {file.name} {file.path}"
        why = "With the secret." if file.is_secret else "From this folder."
        install.append(Step(command, why))
    return ServerConfig(files, (*install, *steps))


def key_name(zone: str) -> str:
    """Return the name of our key for a zone: one label of at most 54 octets.

    A label has at most 63 octets, and the name of the secondaries' key has the suffix `-transfer`. Zones such
    as `a.b-c` and `a-b.c` must not share a key, so the name of a zone with a hyphen ends with a hash.
    """
    name = f"sublet-{zone.replace('.', '-')}"
    if len(name) <= 54 and "-" not in zone:
        return name
    return f"{name[:45]}-{sha256(zone.encode()).hexdigest()[:8]}"
