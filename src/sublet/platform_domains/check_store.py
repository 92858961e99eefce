"""All SQL of the platform domains' invariants."""

from collections.abc import Iterator

from sublet.audit import list_rowless, list_untold
from sublet.db import Tx
from sublet.invariants import Violation
from sublet.platform_domains.store import offers, platform_domains


def list_unaudited(tx: Tx) -> Iterator[Violation]:
    """Of which platform domains, and withdrawals of their offers, does no event tell? Of which that are gone does one?"""
    made, withdrawn = platform_domains.c.created_at, offers.c.withdrawn_at
    yield from list_untold(tx, "platform_domain", platform_domains.c.id, made, ["platform_domain.add"])
    of, action = offers.c.platform_domain_id, ["platform_domain.withdraw_offer"]
    yield from list_untold(tx, "platform_domain", of, withdrawn, action, once=False)
    yield from list_rowless(tx, "platform_domain", platform_domains.c.id)
