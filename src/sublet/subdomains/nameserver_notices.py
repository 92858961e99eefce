"""Notices to the holders of names with nameservers at or below a name in the trash: stages, mails and audit
actions (rules).

The name in the trash is the `enclosing` name.
"""

from collections.abc import Sequence
from datetime import datetime

from sublet.audit import AuditEvent
from sublet.counted import counted
from sublet.dates import moment
from sublet.mail.letter import REMINDERS_FOOTER, Message, letter
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


def removed_hosts(event: AuditEvent) -> list[str]:
    """Return the nameservers that an audit event `REMOVAL` removed."""
    remaining = (event.after or {}).get("nameservers", [])
    return [host for host in (event.before or {}).get("nameservers", []) if host not in remaining]


def notice_mail(stage: int, fqdn: str, hosts: Sequence[str], enclosing: Subdomain, user_name: str) -> Message:
    """Return the notice that nameservers of `fqdn` will be removed when the enclosing name is purged."""
    until = restorable_until(enclosing)
    when = f"on {moment(until)}" if until else "when it is purged"
    subject = (
        f"Nameservers of {fqdn} are about to be removed"
        if stage == ENDING
        else f"Nameservers of {fqdn} need a change"
    )
    listed, verb = ", ".join(hosts), "lies" if len(hosts) == 1 else "lie"
    what = (
        f"Your name {fqdn} uses {listed}, which {verb} at or below {enclosing.fqdn}. "
        f"{enclosing.fqdn} is in the trash and no longer in the DNS."
    )
    why = (
        f"If its holder doesn't restore {enclosing.fqdn}, {listed} will be removed from {fqdn} {when}. "
        f"Otherwise the next holder of {enclosing.fqdn} could take over {fqdn}."
    )
    return Message(subject, letter(user_name, what, why, _WHAT_TO_DO, footer=REMINDERS_FOOTER))


def removal_mail(
    fqdn: str, hosts: Sequence[str], remaining_count: int, enclosing: str, user_name: str
) -> Message:
    """Return the mail about removed nameservers. `remaining_count` is the number of the other nameservers."""
    remaining = (
        f"{fqdn} has {counted(remaining_count, 'nameserver')} left."
        if remaining_count
        else f"{fqdn} has no nameservers left and leaves the DNS. Its DS records were removed too. You "
        "still hold the name."
    )
    what = (
        f"{', '.join(hosts)} {'was' if len(hosts) == 1 else 'were'} removed from your name {fqdn}, because "
        f"{enclosing} was purged from the trash. Otherwise the next holder of {enclosing} could take over "
        f"{fqdn}."
    )
    footer = "You get this mail because your name was changed."
    text = letter(user_name, what, remaining, _WHAT_TO_DO, footer=footer)
    return Message(f"Nameservers of {fqdn} were removed", text)


def notice_detail(stage: int) -> str:
    """Return the text about a notice of this stage for the timeline."""
    if stage == ENDING:
        return "Mail sent: some of the name's nameservers will be removed soon."
    return "Mail sent: some of the name's nameservers are at or below a name in the trash."


_WHAT_TO_DO = "You can change the nameservers on the page of the name."
