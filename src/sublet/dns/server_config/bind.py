"""BIND 9.18 or newer, as primary."""

from ipaddress import ip_address

from sublet.dns.server_config.model import (
    ConfigFile,
    Places,
    ServerConfig,
    Site,
    Step,
    install_steps,
    key_file_name,
)
from sublet.dns.server_config.zone_file import initial_zone_file
from sublet.dns.types import TsigKey

PLACES = Places("/etc/bind", "/var/lib/bind", "/run/named")
"""Debian's; its AppArmor profile lets BIND write in no others."""
_OWNER = "root:bind"


def bind_primary(site: Site) -> ServerConfig:
    """Return BIND's configuration as primary of a zone that it signs.

    An update may only touch names below the apex, with the types of a delegation, and TXT at the fence's name.
    """
    places, zone = site.places, site.apex.zone
    configuration = f"{places.configuration}/named.conf"
    keys = f"{places.configuration}/{key_file_name(zone)}"
    files = (
        ConfigFile(configuration, _named_text(site, keys), _OWNER),
        ConfigFile(keys, _key_text(site.key, site.transfer_key), _OWNER, is_secret=True),
        ConfigFile(f"{places.state}/{zone}.zone", initial_zone_file(site.apex), "bind:bind"),
    )
    steps = (
        *install_steps("bind9 bind9-utils bind9-dnsutils", files),
        Step(f"named-checkconf -z {configuration}", "Says that the zone is `loaded`."),
        Step("systemctl restart named", "It makes a key and signs the zone.", of_machine=True),
    )
    return ServerConfig(files, steps)


def _named_text(site: Site, keys: str) -> str:
    zone, places = site.apex.zone, site.places
    lines = [
        f'include "{keys}";',
        "",
        "options {",
        f'    directory "{places.state}";',
        f'    pid-file "{places.run}/named.pid";',
        f'    session-keyfile "{places.run}/session.key";',
        *_listen_lines(site.address, site.port),
        "    recursion no;",
        "    dnssec-validation no;",
        "    allow-transfer { none; };",
        "    notify no;",
        "    version none;",
        "    hostname none;",
        "};",
        "",
        "# RFC 9276: no iterations, no salt. NSEC3 keeps the list of names from being walked.",
        'dnssec-policy "sublet" {',
        "    keys { csk lifetime unlimited algorithm ecdsap256sha256; };",
        "    nsec3param iterations 0 optout no salt-length 0;",
        "};",
        "",
        f'zone "{zone}" {{',
        "    type primary;",
        f'    file "{places.state}/{zone}.zone";',
        f'    key-directory "{places.state}";',
        '    dnssec-policy "sublet";',
        "    inline-signing no;",
        "    # At its own rate of 10 signatures a step BIND signs 300,000 delegations for many minutes.",
        "    sig-signing-nodes 1000;",
        "    sig-signing-signatures 1000;",
        "    serial-update-method increment;",
        "    update-policy {",
        "        # Sublet: delegations below the apex (a wildcard does not match the apex), and the TXT record of its fence.",
        f"        grant {site.key.name} wildcard *.{zone} NS DS A AAAA;",
        f"        grant {site.key.name} name _sublet.{zone} TXT;",
        f"        # Root on this machine, with `nsupdate -k {places.run}/session.key`: that key is made anew at each start.",
        "        grant local-ddns zonesub ANY;",
        "    };",
        f"    allow-transfer {{ key {site.key.name}; key {site.transfer_key.name}; }};",
        *_notify_lines(site),
        "};",
    ]
    return "\n".join(lines) + "\n"


def _listen_lines(address: str, port: int) -> list[str]:
    if ip_address(address).version == 4:
        return [f"    listen-on port {port} {{ {address}; }};", "    listen-on-v6 { none; };"]
    return ["    listen-on { none; };", f"    listen-on-v6 port {port} {{ {address}; }};"]


def _notify_lines(site: Site) -> list[str]:
    if not site.secondaries:
        return []
    version = "-v6" if ip_address(site.address).version == 6 else ""
    return [
        "    notify explicit;",
        "    # One NOTIFY a second tells of all changes in it. One for each has the secondaries, and BIND, do little else.",
        "    notify-delay 1;",
        f"    notify-source{version} {site.address};",
        "    also-notify {",
        *(
            f"        {each.address} port {each.port} key {site.transfer_key.name};  # {each.host}"
            for each in site.secondaries
        ),
        "    };",
    ]


def _key_text(*keys: TsigKey) -> str:
    return "".join(
        f'key "{key.name}" {{ algorithm {key.algorithm}; secret "{key.secret.reveal()}"; }};\n'
        for key in keys
    )
