"""The texts of mails about a name whose delegation doesn't work (rules)."""

from collections.abc import Sequence
from datetime import datetime

from sublet.dates import moment
from sublet.health.findings import worst_first
from sublet.health.model import Health, Level
from sublet.mail.letter import REMINDERS_FOOTER, Message, letter


def breakage_mail(fqdn: str, user_name: str, health: Health, leaves_at: datetime | None = None) -> Message:
    """Return the mail that a name is broken. `leaves_at` is when it leaves the DNS; None if it stays."""
    paragraphs = [
        f"Resolvers can't find your name {fqdn}, at least since {moment(health.since)}.",
        _error_lines(health),
        "The page of the name shows all findings. You can check it again there.",
    ]
    if leaves_at is not None:
        paragraphs.append(_removal_notice(fqdn, leaves_at))
    return Message(f"{fqdn} doesn't work", letter(user_name, *paragraphs, footer=REMINDERS_FOOTER))


def notice_mail(fqdn: str, user_name: str, health: Health, leaves_at: datetime) -> Message:
    """Return the mail that a broken name is about to leave the DNS."""
    happened = f"Resolvers haven't found your name {fqdn} since {moment(health.since)}."
    text = letter(
        user_name, happened, _error_lines(health), _removal_notice(fqdn, leaves_at), footer=REMINDERS_FOOTER
    )
    return Message(f"{fqdn} is about to leave the DNS", text)


def undelegation_mail(fqdn: str, user_name: str, health: Health, nameservers: Sequence[str]) -> Message:
    """Return the mail that a broken name has left the DNS. Users without reminders get it too."""
    happened = (
        f"Resolvers haven't found your name {fqdn} since {moment(health.since)}. Therefore its nameservers "
        f"({', '.join(nameservers)}), glue and DS records were removed from the DNS. You still hold the "
        "name."
    )
    advice = "To publish it again, set nameservers that work on the page of the name."
    return Message(f"{fqdn} left the DNS", letter(user_name, happened, advice))


def _error_lines(health: Health) -> str:
    errors = [each for each in worst_first(health.findings) if each.level == Level.ERROR]
    return "\n".join(f"- {each.message} {each.hint}" for each in errors)


def _removal_notice(fqdn: str, leaves_at: datetime) -> str:
    return (
        f"Unless {fqdn} works again, it leaves the DNS on {moment(leaves_at)}: its nameservers, glue and DS "
        "records are removed. You keep the name, and can set other nameservers on its page."
    )


def recovery_mail(fqdn: str, user_name: str, health: Health) -> Message:
    """Return the mail that a name works again."""
    happened = f"Your name {fqdn} works again, since {moment(health.since)}."
    return Message(f"{fqdn} works again", letter(user_name, happened, footer=REMINDERS_FOOTER))
