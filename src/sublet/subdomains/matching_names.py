"""List the registered names that match patterns of blocked labels (`sublet label matches`)."""

from collections import defaultdict
from collections.abc import Sequence

from msgspec import Struct

from sublet.db import Tx
from sublet.dns.names import to_unicode
from sublet.platform_domains import store as platform_domain_store
from sublet.platform_domains.labels import matching_patterns
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
    stored: dict[int | None, list[str]] = defaultdict(list)
    if patterns is None:
        for each in platform_domain_store.list_patterns(tx):
            stored[each.platform_domain_id].append(each.pattern)
    found = []
    for subdomain_id, platform_domain_id, label, fqdn, email in stream_held(tx):
        if only not in (None, platform_domain_id):
            continue
        candidates = [*stored[None], *stored[platform_domain_id]] if patterns is None else patterns
        if matching := tuple(matching_patterns(label, candidates)):
            found.append(MatchingName(subdomain_id, fqdn, to_unicode(fqdn), email, matching))
    return found
