"""Notices to the holders of names with nameservers at or below a name in the trash: stages and audit actions
(rules).

The name in the trash is the `enclosing` name.
"""

from datetime import datetime

from sublet.audit import Change
from sublet.subdomains.lifecycle import effective_start, restorable_until
from sublet.subdomains.milestones import trash_reminder_at
from sublet.subdomains.model import Subdomain

IN_TRASH, ENDING = 1, 2
"""The two stages of a name's time in the trash. `ENDING` begins with the reminder of the purge. Each stage
has its own notice.
"""

NOTICE = "subdomain.nameserver_notice"
REMOVAL = "subdomain.remove_nameservers"
CSYNC = "subdomain.follow_csync"
"""The audit action of a change that the child zone requested by its CSYNC record."""
UNDELEGATION = "subdomain.undelegate"
"""The audit action of the removal of nameservers that don't work."""
DELEGATION_CHANGES = ("subdomain.register", "subdomain.update_nameservers", REMOVAL, CSYNC, UNDELEGATION)
"""The audit actions that change a delegation."""


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
