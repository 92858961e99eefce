"""A platform domain for tests of rules, without a database."""

from datetime import UTC, datetime
from typing import Any

from sublet.platform_domains.model import PlatformDomain, default_settings

_NOW = datetime(2026, 11, 21, 9, 30, tzinfo=UTC)


def rule_domain(domain: str = "example.test", **settings: Any) -> PlatformDomain:
    """Return a platform domain with the default settings, except the given ones."""
    values = {**default_settings(domain), **settings}
    return PlatformDomain(id=7, domain=domain, created_at=_NOW, updated_at=_NOW, **values)
