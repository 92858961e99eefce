"""Notify the operator of problems of zones on primaries."""

from sublet.db import Tx
from sublet.mail.operator_notices import notify_operator
from sublet.platform_domains.store import find_platform_domain

FAILURES_BEFORE_NOTICE = 3
"""The failed attempts in a row before a notice. They take at least some seconds, so the restart of a name
server causes no mail.
"""


def notify_of_zone_problem(tx: Tx, platform_domain_id: int, cause: str, sentence: str) -> None:
    """Add a notice that a zone has a problem. There is at most one a day for a zone and a cause."""
    platform_domain = find_platform_domain(tx, platform_domain_id)
    assert platform_domain is not None  # noqa: S101 - the caller has locked the zone or its lease
    domain = platform_domain.domain
    text = (
        f"The zone {domain} has a problem: {sentence.strip().removesuffix('.')}. See `sublet zone status "
        f"{domain}`."
    )
    notify_operator(tx, "zone", text, reference=f"zone:{platform_domain_id}:{cause}:{tx.now:%Y-%m-%d}")
