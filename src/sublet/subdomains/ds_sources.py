"""Where the DS records of a name come from (rules): from its audit events."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Any

from sublet.audit import AuditEvent
from sublet.dns.types import DsRecord
from sublet.subdomains.nameserver_notices import CHANGES

FOLLOWED = "subdomain.follow_child"
"""The audit action of a change that the child asked for."""
SOURCES = ("registrant", "cds", "operator")
CHANGES_OF_DS = (*CHANGES, FOLLOWED)
"""The audit actions that may change DS records."""


@dataclass(frozen=True, slots=True)
class SourcedDs:
    """A DS record with its source, one of `SOURCES`, and since when it is there; both None if the audit doesn't know."""

    record: DsRecord
    source: str | None
    since: datetime | None


def ds_sources(records: Sequence[DsRecord], events: Sequence[AuditEvent]) -> list[SourcedDs]:
    """Return the sources of a name's DS records. `events` are those of `CHANGES_OF_DS`, oldest first."""
    found: dict[DsRecord, tuple[str, datetime]] = {}
    for event in events:
        after = _records(event.after)
        source = _source(event)
        found = {each: found.get(each, (source, event.at)) for each in after}
    return [SourcedDs(each, *found.get(each, (None, None))) for each in records]


def _source(event: AuditEvent) -> str:
    if event.action == FOLLOWED:
        return "cds"
    return "operator" if event.actor_kind == "operator" else "registrant"


def _records(values: Mapping[str, Any] | None) -> list[DsRecord]:
    return [DsRecord(**each) for each in (values or {}).get("ds_records") or ()]
