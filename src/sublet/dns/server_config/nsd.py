"""NSD 4.6 or newer, as secondary."""

from sublet.dns.server_config.model import (
    REFRESH_SECONDS,
    ConfigFile,
    Places,
    SecondarySite,
    ServerConfig,
    Step,
    install_steps,
    key_file_name,
)

PLACES = Places("/etc/nsd", "/var/lib/nsd", "/run/nsd")
"""Debian's."""
_OWNER = "root:nsd"


def nsd_secondary(site: SecondarySite) -> ServerConfig:
    """Return NSD's configuration as secondary: told by NOTIFY, transfers with the key, serves the primary's signatures."""
    places = site.places
    configuration = f"{places.configuration}/nsd.conf"
    keys = f"{places.configuration}/{key_file_name(site.zone)}"
    key = site.transfer_key
    files = (
        ConfigFile(configuration, _text(site, keys), _OWNER),
        ConfigFile(
            keys,
            f'key:\n    name: "{key.name}"\n    algorithm: {key.algorithm}\n    secret: "{key.secret.reveal()}"\n',
            _OWNER,
            is_secret=True,
        ),
    )
    steps = (
        *install_steps("nsd", files),
        Step(f"nsd-checkconf {configuration}", "Says nothing when all is well."),
        Step("systemctl restart nsd", "It transfers the zone.", of_machine=True),
    )
    return ServerConfig(files, steps)


def _text(site: SecondarySite, keys: str) -> str:
    places, key = site.places, site.transfer_key.name
    lines = [
        "server:",
        f"    ip-address: {site.address}@{site.port}",
        f'    username: "{site.user}"',
        f'    zonesdir: "{places.state}"',
        f'    xfrdir: "{places.state}"',
        f'    xfrdfile: "{places.state}/xfrd.state"',
        f'    zonelistfile: "{places.state}/zone.list"',
        '    database: ""',
        f'    pidfile: "{places.run}/nsd.pid"',
        "    hide-version: yes",
        "",
        "remote-control:",
        "    control-enable: yes",
        f'    control-interface: "{places.run}/nsd.sock"',
        "",
        f'include: "{keys}"',
        "",
        "zone:",
        f'    name: "{site.zone}"',
        f'    zonefile: "{site.zone}.zone"',
        f"    allow-notify: {site.primary_address} {key}",
        f"    request-xfr: {site.primary_address}@{site.primary_port} {key}",
        f"    outgoing-interface: {site.address}",
        "    # A NOTIFY may be lost, and after a flock of changes NSD 4.6 may stop short of the last: it asks by itself.",
        f"    max-refresh-time: {REFRESH_SECONDS}",
    ]
    return "\n".join(lines) + "\n"
