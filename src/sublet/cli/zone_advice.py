"""Advice for the problems that `sublet zone status` reports; `make reference` copies it to
docs/operating/trouble.md.
"""

from sublet.errors import Unavailable
from sublet.primaries.primary import CAUSES, PrimaryFault

ADVICE_BY_CAUSE = {
    "unreachable": "Check that the name server runs, that its address in the "
    "settings is right, and that no firewall "
    "blocks it.",
    "no_answer": "Check the name server's host: a hanging process, or a full or very busy disk.",
    "key": "Configure the same key on both sides: name, algorithm and secret. `sublet zone config` prints a "
    "new key.",
    "clock": "Correct both clocks (`timedatectl`). They may differ by at most 300 s.",
    "refused": "Compare the name server's rules for updates with the output of `sublet zone config`.",
    "no_updates": "Check if the zone is frozen (`knotc zone-thaw`, `rndc "
    "thaw`), only a secondary (BIND), or updates "
    "are off (`dnsupdate`, PowerDNS).",
    "zone": "Check that the zone is configured there as primary, and "
    "loaded. If not, the name server's log has "
    "the reason.",
    "failure": "Check the name server's log for problems with its disk, its journal or the signing keys.",
    "not_understood": "Check that a name server listens at that port, and "
    "accepts updates. See the server's page in "
    "docs/operating.",
    "unsigned": "Find out what answers at that address: another server, or a firewall that changes messages.",
    "fence": "Find out which other program changes the zone, or has "
    "rebuilt it. `sublet zone check` lists the "
    "differences.",
    "in_use": "`sublet zone check` lists the records as `foreign`. "
    "Remove them, or suspend or purge the name.",
    "partial": "Compare the name server's rules for updates, and its limits, with the output of `sublet zone "
    "config`.",
    "read_back": "Check that the name server answers queries without a key from this host, over TCP.",
    "too_large": "Check the size of the zone: transfer it with `dig AXFR` "
    "and the key. The limit is `BYTES_MAX` in "
    "`sublet.primaries.transfer`.",
    "settings": "Add the primary to the settings, with a key that `sublet` can read; see docs/settings.md.",
}
"""The advice for each cause of `primaries.primary.CAUSES`."""

ADVICE_BY_SYMPTOM = {
    "waiting": "Check that `sublet serve` runs. `sublet subdomain list "
    "--status failed` lists names that the name "
    "server refuses.",
    "unchecked": "Check that `sublet serve` runs. It compares the zone within a minute. Until then, formerly "
    "published names can't be registered.",
    "drift": "`sublet zone check` lists the differences. The worker "
    "repairs them, unless the repair is stopped.",
    "check": "Check that this host has enough memory and processor "
    "time to compare the zone. The worker tries "
    "again. The log has the error.",
    "repair_stopped": "Run `sublet zone check`. If the registry is right, run `sublet zone repair --force`.",
    "secondary_away": "Check that the secondary runs, has the zone, and that the zone has not expired there.",
    "secondary_behind": "Check in the secondary's log that it gets NOTIFY and "
    "the transfer from the primary, with the "
    "right key.",
    "secondary_ahead": "The worker raises the primary's serial. If the primary "
    "refuses that, make the secondary transfer "
    "the whole zone again.",
    "resolver": "Check the resolver in `health_resolver`: that it runs, "
    "reaches the DNS, and has the right trust "
    "anchor and clock.",
    "bogus": "Compare the DS records at the parent with the zone's keys, and check the signatures: `delv "
    "@RESOLVER DOMAIN SOA` says more.",
    "unresolved": "Check that the parent delegates the zone to these name "
    "servers, and that resolvers reach these at "
    "port 53 over UDP and TCP.",
    "parent_ns": "Have the parent's NS records changed, or the zone's own: "
    "on its primary, or the apex nameservers "
    "of the platform domain.",
    "parent_ds": "Give the parent the DS records of the zone's key (see "
    "the server's page in docs/operating), or "
    "have it remove them.",
    "signatures": "Check on the primary that it signs, and its clock, and "
    "that the secondaries get its transfers.",
    "content": "Make the secondary transfer the whole zone again: `nsd-control force_transfer`, `knotc "
    "zone-retransfer`, `rndc retransfer`.",
}
"""The advice for each other problem of `sublet zone status`."""


def transfer_failed(zone: str, fault: PrimaryFault) -> Unavailable:
    """Return the refusal for a zone that can't be transferred from its primary."""
    meaning, hint = CAUSES.get(fault.cause, fault.cause), ADVICE_BY_CAUSE.get(fault.cause, "")
    return Unavailable(f"The zone {zone} can't be transferred: {meaning} ({fault}). {hint}")
