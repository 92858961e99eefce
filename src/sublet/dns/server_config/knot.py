"""Knot DNS 3.2 or newer, as primary and as secondary."""

from sublet.dns.server_config.model import (
    REFRESH_SECONDS,
    ConfigFile,
    Places,
    SecondarySite,
    ServerConfig,
    Site,
    Step,
    install_steps,
    key_file_name,
)
from sublet.dns.server_config.zone_file import initial_zone_file
from sublet.dns.types import TsigKey

PLACES = Places("/etc/knot", "/var/lib/knot", "/run/knot")
"""Debian's."""
_OWNER = "root:knot"


def knot_primary(site: Site) -> ServerConfig:
    """Return Knot's configuration as primary of a zone that it signs.

    An update may only touch names below the apex, and only the types of a delegation and TXT (the fence). Knot holds each
    record of an update against one rule at a time, so TXT can't be kept to the fence's name alone.
    """
    places, zone = site.places, site.apex.zone
    configuration = f"{places.configuration}/knot.conf"
    keys = f"{places.configuration}/{key_file_name(zone)}"
    zone_path = f"{places.state}/{zone}.zone"
    files = (
        ConfigFile(configuration, _primary_text(site, keys), _OWNER),
        ConfigFile(keys, _key_text(site.key, site.transfer_key), _OWNER, is_secret=True),
        ConfigFile(zone_path, initial_zone_file(site.apex), "knot:knot"),
    )
    steps = (
        *install_steps("knot knot-dnsutils", files),
        Step(f"knotc -c {configuration} conf-check", "Says `Configuration is valid`."),
        Step("systemctl restart knot", "It signs the zone as it loads it.", of_machine=True),
    )
    return ServerConfig(files, steps)


def knot_secondary(site: SecondarySite) -> ServerConfig:
    """Return Knot's configuration as secondary: told by NOTIFY, transfers with the key, serves the primary's signatures."""
    places = site.places
    configuration = f"{places.configuration}/knot.conf"
    keys = f"{places.configuration}/{key_file_name(site.zone)}"
    files = (
        ConfigFile(configuration, _secondary_text(site, keys), _OWNER),
        ConfigFile(keys, _key_text(site.transfer_key), _OWNER, is_secret=True),
    )
    steps = (
        *install_steps("knot", files),
        Step(f"knotc -c {configuration} conf-check", "Says `Configuration is valid`."),
        Step("systemctl restart knot", "It transfers the zone.", of_machine=True),
    )
    return ServerConfig(files, steps)


def _primary_text(site: Site, keys: str) -> str:
    zone = site.apex.zone
    remotes = [f"secondary-{number}" for number, _ in enumerate(site.secondaries, start=1)]
    allowed = ["sublet", *(["secondaries"] if remotes else [])]
    notify = [f"    notify: [{', '.join(remotes)}]"] if remotes else []
    lines = [
        *_server_lines(site.places, site.address, site.port, keys),
        *_remote_lines(site),
        "acl:",
        "  # Sublet: delegations below the apex and the TXT record of its fence; and transfers, to check the zone.",
        "  - id: sublet",
        f"    key: {site.key.name}",
        "    action: [update, transfer]",
        "    update-type: [NS, DS, A, AAAA, TXT]",
        "    update-owner: zone",
        "    update-owner-match: sub",
        *_secondary_acl_lines(site),
        "",
        "policy:",
        "  # RFC 9276: no iterations, no salt. NSEC3 keeps the list of names from being walked.",
        "  - id: sublet",
        "    algorithm: ecdsap256sha256",
        "    single-type-signing: on",
        "    nsec3: on",
        "    nsec3-iterations: 0",
        "    nsec3-salt-length: 0",
        "",
        "zone:",
        f"  - domain: {zone}.",
        f"    storage: {site.places.state}",
        f"    file: {zone}.zone",
        "    # The journal has every update before it is answered. The file follows each hour, and is never read over it.",
        "    zonefile-load: whole",
        "    zonefile-sync: 1h",
        "    journal-content: changes",
        "    serial-policy: increment",
        "    dnssec-signing: on",
        "    dnssec-policy: sublet",
        f"    acl: [{', '.join(allowed)}]",
        *notify,
    ]
    return "\n".join(lines) + "\n"


def _remote_lines(site: Site) -> list[str]:
    if not site.secondaries:
        return []
    lines = ["remote:"]
    for number, each in enumerate(site.secondaries, start=1):
        lines += [
            f"  # {each.host}",
            f"  - id: secondary-{number}",
            f"    address: {each.address}@{each.port}",
            f"    via: {site.address}",
            f"    key: {site.transfer_key.name}",
        ]
    return [*lines, ""]


def _secondary_acl_lines(site: Site) -> list[str]:
    if not site.secondaries:
        return []
    addresses = sorted({each.address for each in site.secondaries})
    return [
        "  - id: secondaries",
        f"    address: [{', '.join(addresses)}]",
        f"    key: {site.transfer_key.name}",
        "    action: transfer",
    ]


def _secondary_text(site: SecondarySite, keys: str) -> str:
    lines = [
        *_server_lines(site.places, site.address, site.port, keys),
        "remote:",
        "  - id: primary",
        f"    address: {site.primary_address}@{site.primary_port}",
        f"    via: {site.address}",
        f"    key: {site.transfer_key.name}",
        "",
        "acl:",
        "  - id: primary",
        f"    address: {site.primary_address}",
        f"    key: {site.transfer_key.name}",
        "    action: notify",
        "",
        "zone:",
        f"  - domain: {site.zone}.",
        f"    storage: {site.places.state}",
        f"    file: {site.zone}.zone",
        "    zonefile-load: whole",
        "    zonefile-sync: 1h",
        "    master: primary",
        "    acl: primary",
        "    # A NOTIFY may be lost.",
        f"    refresh-max-interval: {REFRESH_SECONDS}s",
    ]
    return "\n".join(lines) + "\n"


def _server_lines(places: Places, address: str, port: int, keys: str) -> list[str]:
    return [
        "server:",
        f"    rundir: {places.run}",
        f"    listen: {address}@{port}",
        "    # A large zone's transfer waits for whoever reads it; half a second (the default) cuts slow readers off.",
        "    tcp-io-timeout: 10000",
        '    version: ""',
        "",
        "log:",
        "  - target: stderr",
        "    any: info",
        "",
        "database:",
        f"    storage: {places.state}",
        "    # An update that was answered is on the disk.",
        "    journal-db-mode: robust",
        "",
        f"include: {keys}",
        "",
    ]


def _key_text(*keys: TsigKey) -> str:
    lines = ["key:"]
    for key in keys:
        lines += [
            f"  - id: {key.name}",
            f"    algorithm: {key.algorithm}",
            f"    secret: {key.secret.reveal()}",
        ]
    return "\n".join(lines) + "\n"
