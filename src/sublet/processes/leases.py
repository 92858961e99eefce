"""Leases: what they are called, how long they last, when one may be taken, when it is renewed (rules)."""

from datetime import datetime, timedelta

from sublet.processes.model import Lease

PUBLISH_FOR = timedelta(seconds=10)
"""For how long a zone is one worker's to publish: this long it waits for the next when that one is killed."""
SWEEP_FOR = timedelta(seconds=15)
"""The same of the sweep."""
WATCH_FOR = timedelta(minutes=1)
"""The same of what is in no hurry: a zone's checks. It is renewed twice as often, and each renewal is a write."""
FOR_MAX = timedelta(minutes=1)
"""No lease is longer: one that ends later than this was taken by a clock that was wrong and has been put right since."""
SWEEP = "sweep"
PUBLISH = "publish:"


def publish_lease(platform_domain_id: int) -> str:
    """Return the name of the lease under which the zone of a platform domain is published."""
    return f"{PUBLISH}{platform_domain_id}"


def check_lease(platform_domain_id: int) -> str:
    """Return the name of the lease under which a zone on a primary is looked at and checked."""
    return f"check:{platform_domain_id}"


def is_over(lease: Lease, now: datetime) -> bool:
    """Tell whether a lease may be taken by anybody: it has run out, or no clock that is right can have made it."""
    return lease.expires_at <= now or lease.expires_at > now + FOR_MAX


def is_fresh(lease: Lease, now: datetime, lasts: timedelta) -> bool:
    """Tell whether a lease need not be renewed yet: less than half of the time that it `lasts` is over."""
    return now + lasts / 2 < lease.expires_at <= now + FOR_MAX
