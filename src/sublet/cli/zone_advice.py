"""What the operator can do about whatever is wrong with a zone: for `sublet zone status`; docs/operating/trouble.md says the same."""

OF_CAUSE = {
    "unreachable": "Is the name server running, is its address in the settings right, does a firewall stand between?",
    "no_answer": "Look at the name server's host: does it hang, is its disk full or very busy?",
    "key": "Give both sides the same key: name, algorithm and secret. `sublet zone config` prints a fresh one.",
    "clock": "Set both clocks right (`timedatectl`); they may be 300 s apart at most.",
    "refused": "Compare the name server's rules for updates with those that `sublet zone config` prints.",
    "no_updates": "Is it frozen (`knotc zone-thaw`, `rndc thaw`), only a secondary (BIND), or are updates off (`dnsupdate`, PowerDNS)?",
    "zone": "Is the zone configured there as a primary one, and loaded? The name server's log says why not.",
    "failure": "Look at the name server's log: its disk, its journal, the signing keys.",
    "not_understood": "Is that port a name server's, and does it take updates? See the page of the server in docs/operating.",
    "unsigned": "Ask who answers at that address: another server, or a box between that changes messages.",
    "fence": "Find out who else writes into the zone, or who built it anew; `sublet zone check` tells what differs.",
    "in_use": "`sublet zone check` lists the records as not ours. Remove them, or suspend or purge the name.",
    "partial": "Compare the name server's rules for updates, and its limits, with those that `sublet zone config` prints.",
    "read_back": "Does the name server answer unsigned questions from this host, over TCP?",
    "too_large": "Does the zone have as much? `dig AXFR` with the key tells. The bound is 4 GiB, `BYTES_MAX` in `sublet.primaries.transfer`.",
    "settings": "Name the primary in the settings, with a key that `sublet` may read; see docs/settings.md.",
}
"""By the causes of `primaries.primary.CAUSES`."""

OF_SYMPTOM = {
    "waiting": "Is `sublet serve` running? `sublet subdomain list --status failed` has the names that are refused alone.",
    "unchecked": "`sublet serve` compares it within a minute: is it running? Until then no name that was ever published there can be registered.",
    "drift": "`sublet zone check` lists it. It is repaired by itself, unless that was stopped.",
    "check": "Does this host have enough memory and processor time to compare the zone? The worker tries again; the log says how the check ended.",
    "repair_stopped": "Look with `sublet zone check`; `sublet zone repair --force` lets it happen.",
    "secondary_away": "Look at the secondary: is it running, does it hold the zone, has the zone expired there?",
    "secondary_behind": "Look at the secondary's log: does the primary notify it, does it get the transfer, with the right key?",
    "secondary_ahead": "Raise the primary's serial above the secondary's, or have the secondary transfer the zone anew.",
}
"""What `sublet zone status` finds wrong besides."""
