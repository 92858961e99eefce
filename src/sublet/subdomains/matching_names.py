"""List the registered names that match patterns of blocked labels (`sublet label matches`)."""

from collections.abc import Sequence

from msgspec import Struct

from sublet.db import Tx
from sublet.dns.names import to_unicode
from sublet.platform_domains import store as platform_domain_store
from sublet.platform_domains.labels import is_blocked
from sublet.platform_domains.platform_domain import find_platform_domain
from sublet.subdomains.store import stream_held


class MatchingName(Struct, frozen=True):
    """A name that is live or in the trash, its Unicode form, its user's address, and the patterns that match
    its label.
    """

    id: int
    fqdn: str
    unicode: str
    email: str
    patterns: tuple[str, ...]


def list_matching(
    tx: Tx, patterns: Sequence[str] | None = None, identifier: str | None = None
) -> list[MatchingName]:
    """Return the names, live or in the trash, that match these patterns, or else the stored patterns.

    Reads all names.

    `identifier` limits the result to a platform domain.

    Raises:
        NotFound: there is no such platform domain.
    """
    only = find_platform_domain(tx, identifier).id if identifier is not None else None
    stored = platform_domain_store.list_patterns(tx) if patterns is None else []
    found = []
    for subdomain_id, platform_domain_id, label, fqdn, email in stream_held(tx):
        if only not in (None, platform_domain_id):
            continue
        candidates = (
            patterns
            if patterns is not None
            else [each.pattern for each in stored if each.platform_domain_id in (None, platform_domain_id)]
        )
        matching = tuple(each for each in candidates if is_blocked(label, (each,)))
        if matching:
            found.append(MatchingName(subdomain_id, fqdn, to_unicode(fqdn), email, matching))
    return found
