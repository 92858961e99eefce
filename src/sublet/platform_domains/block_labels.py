"""Block the labels of a pattern (the operator's `sublet label block`)."""

from sublet import audit
from sublet.audit import Actor
from sublet.db import Tx
from sublet.errors import Conflict, validation_failed
from sublet.platform_domains import pattern_store
from sublet.platform_domains.find import find_platform_domain
from sublet.platform_domains.label_patterns import PATTERNS_MAX, parse_pattern
from sublet.platform_domains.model import LabelPattern


def block_labels(tx: Tx, actor: Actor, text: str, identifier: str | None = None) -> LabelPattern:
    """Let nobody register labels of a pattern, under one platform domain, or under any. Names that are held stay.

    A label that the operator listed by itself is what it is listed as.

    Raises, in this order:
        NotFound: no such platform domain.
        ValidationFailed: the pattern is none.
        Conflict: it is blocked already; or there are as many patterns as there may be.
    """
    platform_domain_id = find_platform_domain(tx, identifier).id if identifier is not None else None
    pattern, errors = parse_pattern(text)
    if errors:
        raise validation_failed(errors)
    if pattern_store.find_pattern(tx, platform_domain_id, pattern) is not None:
        raise Conflict(f"The pattern {pattern} is blocked already. No action needed.")
    if pattern_store.count_patterns(tx, platform_domain_id) >= PATTERNS_MAX:
        raise Conflict(
            f"There are {PATTERNS_MAX} patterns already, and each registration is compared with all. Unblock one first."
        )
    added = pattern_store.insert_pattern(tx, platform_domain_id, pattern)
    audit.record(tx, actor, "label_pattern.block", "label_pattern", added.id, after=describe(added))
    return added


def describe(pattern: LabelPattern) -> dict[str, object]:
    """Return a pattern as the audit keeps it."""
    return {"pattern": pattern.pattern, "platform_domain_id": pattern.platform_domain_id}
