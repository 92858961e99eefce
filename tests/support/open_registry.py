"""The service that a module of contract tests shares, and the expected members of a subdomain."""

from collections.abc import Iterator
from contextlib import contextmanager
from datetime import datetime
from pathlib import Path
from typing import Any

from support.error_triggers import furnish
from support.running_service import RunningService, registry_address, running_service

SUBDOMAIN_FIELDS = [
    "id", "fqdn", "label", "domain", "domain_public_name", "status", "status_label", "registration_type",
    "registration_source", "nameservers", "glue", "dnssec_enabled", "ds_records", "provision_error", "registered_at",  # noqa: E501
    "expires_at", "last_renewed_at", "renewal_available", "created_at", "updated_at",
]  # fmt: skip
"""The fields of the spec, part 2, "Subdomain object", copied by hand."""


@contextmanager
def opened(folder: Path, **settings: Any) -> Iterator[RunningService]:
    """Run a service with the platform domains of `error_triggers.furnish`.

    Every invariant must hold at the end.
    """
    with running_service(registry_address(folder), **settings) as service:
        furnish(service)
        yield service
        assert (found := service.doctor()) == [], found


def instant(text: Any) -> datetime:
    """Parse a timestamp, which must be RFC 3339 in UTC with `Z`."""
    assert isinstance(text, str)
    assert text.endswith("Z"), text
    return datetime.fromisoformat(text)
