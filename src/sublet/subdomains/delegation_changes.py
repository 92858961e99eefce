"""What the audit events of a name say about its delegation: changes, the source of each DS record, and the
notices before nameservers below a name in the trash are removed (rules).

The name in the trash is the `enclosing` name.
"""

from collections.abc import Mapping, Sequence
from datetime import datetime
from typing import Any

from msgspec import Struct

from sublet.audit import AuditEvent, Change
from sublet.dns.types import DsRecord
from sublet.subdomains.lifecycle import effective_start, restorable_until, trash_reminder_at
from sublet.subdomains.model import Subdomain

NOTICE = "subdomain.nameserver_notice"
REMOVAL = "subdomain.remove_nameservers"
CSYNC = "subdomain.follow_csync"
"""The audit action of a change that the child zone requested by its CSYNC record."""
UNDELEGATION = "subdomain.undelegate"
"""The audit action of the removal of nameservers that don't work."""
DELEGATION_CHANGES = ("subdomain.register", "subdomain.update_nameservers", REMOVAL, CSYNC, UNDELEGATION)
"""The audit actions that change a delegation."""
FOLLOWED = "subdomain.follow_child"
"""The audit action of a change of DS records that the child zone requested."""
SOURCES = ("registrant", "cds", "operator")
CHANGES_OF_DS = (*DELEGATION_CHANGES, FOLLOWED)
"""The audit actions that may change DS records."""

IN_TRASH, ENDING = 1, 2
"""The two stages of a name's time in the trash. `ENDING` begins with the reminder of the purge. Each stage
has its own notice.
"""


def warning_stage(enclosing: Subdomain, now: datetime) -> tuple[int, datetime] | None:
    """Return the current stage, and the start of the enclosing name's time in the trash.

    None if that name isn't in the trash, or is suspended.
    """
    if enclosing.trashed_at is None or restorable_until(enclosing) is None:
        return None
    ends_soon_at = trash_reminder_at(enclosing)
    stage = ENDING if ends_soon_at is not None and ends_soon_at <= now else IN_TRASH
    return stage, effective_start(enclosing, enclosing.trashed_at)


def removed_hosts(event: Change) -> list[str]:
    """Return the nameservers that an audit event `REMOVAL` removed."""
    remaining = (event.after or {}).get("nameservers", [])
    return [host for host in (event.before or {}).get("nameservers", []) if host not in remaining]


def notice_detail(stage: int) -> str:
    """Return the text about a notice of this stage for the timeline."""
    if stage == ENDING:
        return "Mail sent: some of the name's nameservers will be removed soon."
    return "Mail sent: some of the name's nameservers are at or below a name in the trash."


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
