"""PowerDNS Authoritative Server 4.7 or newer with SQLite, as primary."""

from sublet.dns.server_config.model import (
    ConfigFile,
    Places,
    ServerConfig,
    Site,
    Step,
    install_steps,
)
from sublet.dns.server_config.zone_file import initial_zone_file
from sublet.dns.types import TsigKey

PLACES = Places("/etc/powerdns", "/var/lib/powerdns", "/run/pdns")
"""Debian's."""
_OWNER = "root:pdns"
_SCHEMA = "/usr/share/pdns-backend-sqlite3/schema/schema.sqlite3.sql"


def powerdns_primary(site: Site) -> ServerConfig:
    """Return PowerDNS's configuration as primary of a zone that it signs as it answers.

    An update may only touch names below the apex, with the types of a delegation, and TXT at the fence's name: the policy is a
    Lua script, since the settings can only name the key. Keys and rights of the zone are in the database.
    """
    places, zone = site.places, site.apex.zone
    database = f"{places.state}/pdns.sqlite3"
    zone_path = f"{places.state}/{zone}.zone"
    keys = f"{places.state}/sublet-{zone}.keys.sql"
    files = (
        ConfigFile(f"{places.configuration}/pdns.conf", _settings_text(site, database), _OWNER),
        ConfigFile(f"{places.configuration}/update-policy.lua", _policy_text(site), _OWNER),
        ConfigFile(keys, _key_text(site.key, site.transfer_key), "pdns:pdns", is_secret=True),
        ConfigFile(zone_path, initial_zone_file(site.apex), "pdns:pdns"),
    )
    steps = (
        *install_steps("pdns-server pdns-backend-sqlite3 sqlite3", files),
        Step(f'sqlite3 {database} ".read {_SCHEMA}"', "An empty database.", "pdns"),
        Step(f"chmod 0600 {database}", "It will hold the secrets and the signing key.", "pdns"),
        Step(f'sqlite3 {database} ".read {keys}"', "The keys.", "pdns"),
        *(Step(_tool(places, words), why, "pdns") for words, why in _zone_commands(site, zone_path)),
        Step(f"rm {keys}", "The keys are in the database now.", of_machine=True),
        Step("systemctl restart pdns", "It serves the zone.", of_machine=True),
    )
    return ServerConfig(files, steps)


def _tool(places: Places, words: str) -> str:
    return f"pdnsutil --config-dir={places.configuration} {words}"


def _zone_commands(site: Site, zone_path: str) -> list[tuple[str, str]]:
    zone, key, transfer_key = site.apex.zone, site.key.name, site.transfer_key.name
    kind = "primary" if site.secondaries else "native"
    commands = [
        (f"load-zone {zone} {zone_path}", "The zone as it begins."),
        (f"set-kind {zone} {kind}", "Native writes down no notifications; primary is for secondaries."),
        (f"secure-zone {zone}", "A key (ECDSA P-256)."),
        (
            f"set-nsec3 {zone} '1 0 0 -'",
            "RFC 9276: no iterations, no salt; NSEC3 keeps names from being walked.",
        ),
        (f"set-meta {zone} TSIG-ALLOW-DNSUPDATE {key}", "Sublet's key may update, within update-policy.lua."),
        (
            f"set-meta {zone} ALLOW-DNSUPDATE-FROM 0.0.0.0/0 ::/0",
            "From anywhere, since the key is what counts.",
        ),
        (
            f"set-meta {zone} TSIG-ALLOW-AXFR {transfer_key} {key}",
            "Who may transfer; the first signs NOTIFY.",
        ),
        (f"set-meta {zone} SOA-EDIT INCEPTION-EPOCH", "Each week's new signatures come with a new serial."),
        (f"set-meta {zone} SOA-EDIT-DNSUPDATE SOA-EDIT-INCREASE", "Each update too."),
    ]
    if site.secondaries:
        targets = " ".join(_target(each.address, each.port) for each in site.secondaries)
        commands += [
            (f"set-meta {zone} ALSO-NOTIFY {targets}", "Whom it tells."),
            (f"set-meta {zone} NOTIFY-DNSUPDATE 1", "At once, not at the next cycle."),
        ]
    return [*commands, (f"rectify-zone {zone}", "Puts the names in NSEC3's order.")]


def _target(address: str, port: int) -> str:
    return f"[{address}]:{port}" if ":" in address else f"{address}:{port}"


def _settings_text(site: Site, database: str) -> str:
    # What it notes of notifications is a write beside the updates; SQLite then has an update fail (SERVFAIL, nothing done),
    # which Sublet sends again. So that is looked through each hour instead of each minute: NOTIFY-DNSUPDATE tells them at once.
    primary_lines = ["primary=yes", "xfr-cycle-interval=3600", f"query-local-address={site.address}"]
    lines = [
        "launch=gsqlite3",
        f"gsqlite3-database={database}",
        "gsqlite3-dnssec=yes",
        "gsqlite3-pragma-foreign-keys=yes",
        "# An update that was answered is on the disk (2 is FULL).",
        "gsqlite3-pragma-journal-mode=WAL",
        "gsqlite3-pragma-synchronous=2",
        f"local-address={site.address}",
        f"local-port={site.port}",
        f"socket-dir={site.places.run}",
        *(primary_lines if site.secondaries else []),
        "only-notify=",
        "allow-axfr-ips=",
        "dnsupdate=yes",
        "allow-dnsupdate-from=",
        f"lua-dnsupdate-policy-script={site.places.configuration}/update-policy.lua",
        "# What is read back right after an update must be what is in the database.",
        "cache-ttl=0",
        "query-cache-ttl=0",
        "negquery-cache-ttl=0",
        "default-ksk-algorithm=ecdsa256",
        "default-zsk-algorithm=",
        "version-string=anonymous",
        "security-poll-suffix=",
    ]
    return "\n".join(lines) + "\n"


def _policy_text(site: Site) -> str:
    zone = site.apex.zone
    return f"""\
-- Asked for each record of an update; true lets it pass. Sublet: delegations below the apex, and the TXT record of its fence.
-- With "false" PowerDNS would pass over the record and do the rest, and answer NOERROR. An error undoes the whole update.
local zone = newDN("{zone}.")
local fence = newDN("_sublet.{zone}.")
local key = newDN("{site.key.name}.")

local function allowed(name, kind)
    if kind == pdns.TXT then
        return name == fence
    end
    if name == zone or not name:isPartOf(zone) then
        return false
    end
    return kind == pdns.NS or kind == pdns.DS or kind == pdns.A or kind == pdns.AAAA
end

function updatepolicy(input)
    if input:getZoneName() == zone and input:getTsigName() == key and allowed(input:getQName(), input:getQType()) then
        return true
    end
    error("refused by update-policy.lua: " .. input:getQName():toString() .. " type " .. tostring(input:getQType()))
end
"""


def _key_text(*keys: TsigKey) -> str:
    rows = ", ".join(f"('{key.name}', '{key.algorithm}', '{key.secret.reveal()}')" for key in keys)
    return f"INSERT INTO tsigkeys (name, algorithm, secret) VALUES {rows};\n"  # noqa: S608 - names of A-labels and base64, of our own making
