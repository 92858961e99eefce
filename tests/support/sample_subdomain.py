"""A stored name for tests of rules.

It is free, registered at `NOW` for a year, and published with one nameserver.
"""

from datetime import UTC, datetime, timedelta
from functools import partial
from typing import Any

from sublet.dns.types import Delegation
from sublet.subdomains.model import Subdomain

NOW = datetime(2026, 11, 21, 9, 30, tzinfo=UTC)
DAY = timedelta(days=1)
SERVED = Delegation(("ns1.example.org",))
_NULL: dict[str, Any] = dict.fromkeys(Subdomain.__struct_fields__)
# Fields that aren't set are null.
NAME = partial(Subdomain, **_NULL)(
    id=1,
    user_id=1,
    platform_domain_id=1,
    domain="example.test",
    domain_public_name="Example",
    label="shop",
    fqdn="shop.example.test",
    registration_type="free",
    registration_source="api",
    delegation=SERVED,
    record_count=0,
    records=(),
    generation=3,
    published_generation=3,
    attempts=0,
    published_at=NOW,
    published_serial=7,
    registered_at=NOW,
    expires_at=NOW + 365 * DAY,
    period_days=365,
    created_at=NOW,
    updated_at=NOW,
    generation_at=NOW,
    renewal_window_days=60,
    grace_days=30,
    trash_days=30,
    cooling_off_days=7,
    nameservers_min=1,
    nameservers_max=13,
    accepts_records=True,
)
