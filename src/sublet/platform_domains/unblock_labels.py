"""Let the labels of a pattern be registered again (the operator's `sublet label unblock`)."""

from sublet import audit
from sublet.audit import Actor
from sublet.db import Tx
from sublet.dns.names import shown
from sublet.errors import NotFound
from sublet.platform_domains import pattern_store
from sublet.platform_domains.block_labels import describe
from sublet.platform_domains.find import find_platform_domain
from sublet.platform_domains.label_patterns import parse_pattern
from sublet.platform_domains.model import LabelPattern


def unblock_labels(tx: Tx, actor: Actor, text: str, identifier: str | None = None) -> LabelPattern:
    """Remove a pattern of one platform domain, or of all; return what it was.

    Raises, in this order:
        NotFound: no such platform domain; no such pattern there.
    """
    platform_domain_id = find_platform_domain(tx, identifier).id if identifier is not None else None
    pattern, errors = parse_pattern(text)
    found = None if errors else pattern_store.find_pattern(tx, platform_domain_id, pattern)
    if found is None:
        where = f"for {identifier}" if identifier is not None else "for all platform domains"
        raise NotFound(f"The pattern `{shown(text)}` is not blocked {where}. See `sublet label blocked`.")
    pattern_store.delete_pattern(tx, found.id)
    audit.record(tx, actor, "label_pattern.unblock", "label_pattern", found.id, before=describe(found))
    return found
