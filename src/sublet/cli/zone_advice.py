"""Advice for the problems that `sublet zone status` reports; `make reference` copies it to docs/operating/trouble.md."""

from sublet.errors import Unavailable
from sublet.primaries.primary import CAUSES, PrimaryFault

OF_CAUSE = {
    "unreachable": "Is the name server running, is its address in the settings right, does a firewall block it?",
    "no_answer": "Look at the name server's host: does it hang, is its disk full or very busy?",
    "key": "Give both sides the same key: name, algorithm and secret. `sublet zone config` prints a fresh one.",
    "clock": "Correct both clocks (`timedatectl`); they may differ by at most 300 s.",
    "refused": "Compare the name server's rules for updates with those that `sublet zone config` prints.",
    "no_updates": "Is it frozen (`knotc zone-thaw`, `rndc thaw`), only a secondary (BIND), or are updates off (`dnsupdate`, PowerDNS)?",
    "zone": "Is the zone configured there as primary, and loaded? If not, the name server's log says why.",
    "failure": "Look at the name server's log: its disk, its journal, the signing keys.",
    "not_understood": "Is there a name server at that port, and does it accept updates? See the server's page in docs/operating.",
    "unsigned": "Find out what answers at that address: another server, or a firewall that changes messages?",
    "fence": "Find out what else writes into the zone, or rebuilt it. `sublet zone check` lists the differences.",
    "in_use": "`sublet zone check` lists the records as `not ours`. Remove them, or suspend or purge the name.",
    "partial": "Compare the name server's rules for updates, and its limits, with those that `sublet zone config` prints.",
    "read_back": "Does the name server answer questions without a key from this host, over TCP?",
    "too_large": "Transfer the zone with `dig AXFR` and the key: is it that large? The limit is `BYTES_MAX` in `sublet.primaries.transfer`.",
    "settings": "Add the primary to the settings, with a key that `sublet` may read; see docs/settings.md.",
}
"""By the causes of `primaries.primary.CAUSES`."""

OF_SYMPTOM = {
    "waiting": "Is `sublet serve` running? `sublet subdomain list --status failed` lists single names that the name server refuses.",
    "unchecked": "Is `sublet serve` running? It compares the zone within a minute. Until then names that were ever published there can't be registered.",
    "drift": "`sublet zone check` lists the differences. The worker repairs them, unless the repair is stopped.",
    "check": "Does this host have enough memory and processor time to compare the zone? The worker tries again; the log says how the check ended.",
    "repair_stopped": "Look at `sublet zone check`. If the registry is right, run `sublet zone repair --force`.",
    "secondary_away": "Is the secondary running, does it have the zone, has the zone expired there?",
    "secondary_behind": "Look at the secondary's log: does it get NOTIFY from the primary, and the transfer, with the right key?",
    "secondary_ahead": "Raise the primary's serial above the secondary's, or have the secondary transfer the whole zone again.",
}
"""By the other problems of `sublet zone status`."""


def transfer_failed(zone: str, fault: PrimaryFault) -> Unavailable:
    """Return the refusal of a command that can't transfer a zone from its primary."""
    meaning, hint = CAUSES.get(fault.cause, fault.cause), OF_CAUSE.get(fault.cause, "")
    return Unavailable(f"The zone {zone} can't be transferred: {meaning} ({fault}). {hint}")
