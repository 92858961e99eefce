"""Canaries: unique texts in the place of secrets and private data, which are searched where they must not
occur.
"""

import re
from dataclasses import dataclass

ANSWERS, LOG, METRICS, AUDIT, BACKUP = "answers", "log", "metrics", "audit", "backup"

FORBIDDEN: dict[str, frozenset[str]] = {
    # A credential is nowhere: the database has digests of tokens alone, keys and passwords are in files.
    "token": frozenset({LOG, METRICS, AUDIT, BACKUP}),
    "TSIG key": frozenset({LOG, METRICS, AUDIT, BACKUP}),
    "SMTP password": frozenset({LOG, METRICS, AUDIT, BACKUP}),
    # What users write is in the database, and so in a backup, and nowhere else.
    "ticket text": frozenset({LOG, METRICS, AUDIT}),
    # The audit tells what the operator changed of a user and a coupon: it has their names.
    "e-mail address": frozenset({LOG, METRICS}),
    "user's name": frozenset({LOG, METRICS}),
    "coupon code": frozenset({LOG, METRICS}),
    # Registered names are public in the DNS; whose they are is not.
    "registered name": frozenset({METRICS}),
}
"""The places where a canary must not be, by kind. No canary may be in an answer to another account."""


@dataclass(frozen=True, slots=True)
class Canary:
    """A text to search for; answers to `tokens` may contain it."""

    kind: str
    text: str
    tokens: tuple[str, ...] = ()
    sent_about: bool = False
    """Clients put it into requests themselves, for one as a ticket's text: then a backup may have it."""


def found_in(place: str, octets: bytes, canaries: tuple[Canary, ...]) -> list[str]:
    """Return a sentence on each canary that a place has and must not have."""
    lower = octets.lower()
    found = []
    for each in canaries:
        allowed = place not in FORBIDDEN[each.kind] or (place == BACKUP and each.sent_about)
        if not allowed and each.text.lower().encode() in lower:
            around = lower.find(each.text.lower().encode())
            before = re.sub(rb"[^ -~]", b".", lower[max(0, around - 80) : around])
            found.append(f"a {each.kind} is in the {place}, after {before!r}")
    return found
