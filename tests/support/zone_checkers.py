"""Knot's and BIND's checkers of zone files, to compare the rule of records with them."""

import re
import subprocess
from collections import Counter
from collections.abc import Sequence
from pathlib import Path
from random import Random

from sublet.dns.types import RecordSetInput
from sublet.subdomains.records.rule import check_records
from support.programs import find_program
from support.random_records import NAME, random_records
from support.rule_domains import rule_domain

ZONE = "example.test"
APEX = f"""\
$ORIGIN {ZONE}.
@ 3600 IN SOA ns.provider.example. hostmaster.provider.example. 1 3600 900 1209600 300
@ 3600 IN NS ns.provider.example.
$ORIGIN {NAME}.
"""
# `-i local`: BIND would otherwise look up hosts of other zones with the machine's resolver.
CHECKERS = {"bind": ("named-checkzone", "-i", "local"), "knot": ("kzonecheck", "-o")}


def zone_text(entries: Sequence[RecordSetInput]) -> str:
    """Return the zone file of a zone in which `NAME` has these records."""
    lines = [
        f"{each.name} {300 if each.ttl_seconds is None else each.ttl_seconds} IN {each.type} {value}\n"
        for each in entries
        for value in each.values
    ]
    return APEX + "".join(lines)


def judge(text: str, folder: Path) -> dict[str, str]:
    """Return what each program says against a zone file; an empty text if it accepts it."""
    file = folder / "zone"
    file.write_text(text, encoding="utf-8")
    said = {}
    for program, (command, *options) in CHECKERS.items():
        done = subprocess.run(
            [find_program(command), *options, ZONE, str(file)],
            capture_output=True,
            text=True,
            check=False,
            timeout=60,
            errors="replace",
        )
        said[program] = (done.stdout + done.stderr).strip() or "refused" if done.returncode else ""
    return said


STRICTER = {
    r"is outside|owner is empty": "an owner is at or below the name",
    r"no wildcard|wildcard, which": "`*` is the first label",
    r"no name here may have|contains "
    r"`|starts or ends with a hyphen": "names have letters, digits, hyphens and "
    "underscores, and hosts no underscores",
    r"is no host name, so": "addresses and mail hosts are at host names; BIND refuses others in updates",
    r"is a single label": "a host is a full name",
    r"label of digits|is an address|root of the DNS|points to itself": "a CNAME, MX or SRV record "
    "points to another host",
    r"is given twice": "an RRset is given once, and each of its values",
    r"takes no mail, and must be alone": "RFC 7505",
    r"flags of a CAA|A TLSA record has|An SSHFP record has": "assigned numbers",
    r"text outside of quotation marks": "a TXT value is quoted as a whole, or not at all",
    r"^(A|AAAA) `[^`]*[;()\"]": "a value is no line of a zone file: it has no comments or parentheses",
    r"^(TLSA|SSHFP) `[^`]*` can't be read": "a digest has the length of its algorithm",
    r"^(HTTPS|SVCB) `0 [^`]*` can't be read": "an alias has no parameters (RFC 9460, section 2.4.2)",
    r"not all name servers can serve|value of a CAA record is empty": "PowerDNS can't serve it",
    r"^(HTTPS|SVCB) `[^`]*ech=[^`]*` can't be read": "the list of keys of ECH has its length",
}
"""What we refuse and both programs accept: a pattern of our type and message, and our reason."""


def difference(entries: Sequence[RecordSetInput], folder: Path) -> tuple[str, str]:
    """Return how our rule and the programs judge: `accepted`, `refused`, `they differ` or the reason of our
    policy; and an unexplained difference.
    """
    domain = rule_domain(record_private_addresses=True)
    _, errors = check_records(NAME, entries, domain)
    said = judge(zone_text(entries), folder)
    refusals = [text for text in said.values() if text]
    if len(refusals) == 1:
        return "the programs differ", ""
    if refusals:
        if errors:
            return "all refuse", ""
        lenient = any(_is_text(each.type, value) for each in entries for value in each.values)
        return "we split or quote texts", "" if lenient else f"we accept {entries}: {said}"
    if not errors:
        return "all accept", ""
    for error in errors:
        index = re.search(r"\d+", error.field)
        type_name = entries[int(index[0])].type if index else ""
        if not any(re.search(pattern, f"{type_name} {error.message}") for pattern in STRICTER):
            return "unexplained", f"we refuse {entries}: {error}"
    return "we are stricter", ""


def _is_text(type_name: str, value: str) -> bool:
    """True if a TXT value is unquoted, or has a string that must be split."""
    return type_name == "TXT" and (not value.startswith('"') or len(value) > 255)


def compare(seed: int, count: int, folder: Path) -> Counter[str]:
    """Compare our rule with the programs for random lists of RRsets. Return how often they judged how."""
    random = Random(seed)  # noqa: S311 - a test's draw
    judged: Counter[str] = Counter()
    for _ in range(count):
        how, unexplained = difference(random_records(random), folder)
        assert not unexplained, unexplained
        judged[how] += 1
    return judged
