"""Take a label from the list of a platform domain (the operator's `sublet label unset`)."""

from sublet import audit
from sublet.audit import Actor
from sublet.db import Tx
from sublet.dns.names import InvalidName, parse_label, shown
from sublet.errors import NotFound
from sublet.platform_domains import store
from sublet.platform_domains.find import find_platform_domain
from sublet.platform_domains.model import Label
from sublet.platform_domains.set_label import describe


def unset_label(tx: Tx, actor: Actor, identifier: str, label: str) -> Label:
    """Let a label be again what the rules make of it; return what was listed.

    Raises, in this order:
        NotFound: no such platform domain; the label is not listed.
    """
    platform_domain = find_platform_domain(tx, identifier)
    try:
        label = parse_label(label)
    except InvalidName:
        listed = None
    else:
        listed = store.find_label(tx, platform_domain.id, label)
    if listed is None:
        raise NotFound(
            f"The label `{shown(label)}` is not listed for {platform_domain.domain}. See `sublet label list`."
        )
    store.delete_label(tx, platform_domain.id, label)
    audit.record(tx, actor, "label.unset", "platform_domain", platform_domain.id, before=describe(listed))
    return listed
