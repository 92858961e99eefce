"""What the tests of the contract share: one service for a module of tests, a hand in its zones, members and their types."""

from collections.abc import Iterator
from contextlib import contextmanager
from datetime import datetime
from pathlib import Path
from typing import Any

from sublet.db import Tx
from sublet.dns.types import Record
from sublet.platform_domains import zone_store
from support.error_triggers import furnish
from support.running_service import RunningService, registry_address, running_service

SUBDOMAIN_FIELDS = [
    "id", "fqdn", "label", "domain", "domain_public_name", "status", "status_label", "registration_type",
    "registration_source", "nameservers", "glue", "dnssec_enabled", "ds_records", "provision_error", "registered_at",
    "expires_at", "last_renewed_at", "renewal_available", "created_at", "updated_at",
]  # fmt: skip
"""Spec, part 2, "Subdomain object", written out once more."""


@contextmanager
def opened(folder: Path, **settings: Any) -> Iterator[RunningService]:
    """Run a service with the platform domains of `error_triggers.furnish`; every invariant must hold at the end."""
    with running_service(registry_address(folder), **settings) as service:
        furnish(service)
        yield service
        assert (found := service.doctor()) == [], found


def occupy(service: RunningService, fqdn: str, *, free: bool = False) -> None:
    """Add a record to a zone without the registry, or remove it: until then, a first delegation at that name fails."""
    domain_id = service.operator("domain", "show", fqdn.partition(".")[2])["id"]

    def change(tx: Tx) -> None:
        if free:
            table = zone_store.zone_records
            tx.connection.execute(table.delete().where((table.c.owner == fqdn) & (table.c.type == "TXT")))
        else:
            zone_store.insert_records(tx, domain_id, [Record(fqdn, "TXT", 3600, '"by hand"')])

    service.write(change)


def instant(text: Any) -> datetime:
    """Return a timestamp, which must be RFC 3339 in UTC with `Z`."""
    assert isinstance(text, str)
    assert text.endswith("Z"), text
    return datetime.fromisoformat(text)
