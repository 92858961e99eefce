"""Find the source of each DS record of a name in the name's audit events (rules)."""

from collections.abc import Mapping, Sequence
from datetime import datetime
from typing import Any

from msgspec import Struct

from sublet.audit import AuditEvent
from sublet.dns.types import DsRecord
from sublet.subdomains.nameserver_notices import DELEGATION_CHANGES

FOLLOWED = "subdomain.follow_child"
"""The audit action of a change of DS records that the child zone requested."""
SOURCES = ("registrant", "cds", "operator")
CHANGES_OF_DS = (*DELEGATION_CHANGES, FOLLOWED)
"""The audit actions that may change DS records."""


class SourcedDs(Struct, frozen=True):
    """A DS record with its source (one of `SOURCES`) and start.

    Both are None if no audit event has the record.
    """

    record: DsRecord
    source: str | None
    since: datetime | None


def ds_sources(records: Sequence[DsRecord], events: Sequence[AuditEvent]) -> list[SourcedDs]:
    """Return a name's DS records with their sources.

    `events` are the name's audit events with `CHANGES_OF_DS`, oldest first.
    """
    found: dict[DsRecord, tuple[str, datetime]] = {}
    for event in events:
        after = _records(event.after)
        source = _source(event)
        found = {each: found.get(each, (source, event.at)) for each in after}
    return [SourcedDs(each, *found.get(each, (None, None))) for each in records]


def last_change_by_hand(events: Sequence[AuditEvent]) -> datetime | None:
    """Return when the user or the operator last changed the DS records of a registered name; None if never.

    `events` are as in `ds_sources`.
    """
    changed_at: datetime | None = None
    known: set[DsRecord] | None = None
    for event in events:
        after = set(_records(event.after))
        if known is not None and after != known and event.actor_kind != "system":
            changed_at = event.at
        known = after
    return changed_at


def _source(event: AuditEvent) -> str:
    if event.action == FOLLOWED:
        return "cds"
    return "operator" if event.actor_kind == "operator" else "registrant"


def _records(values: Mapping[str, Any] | None) -> list[DsRecord]:
    return [DsRecord(**each) for each in (values or {}).get("ds_records") or ()]
