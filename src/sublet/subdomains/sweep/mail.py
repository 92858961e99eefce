"""The texts of mails about a name's dates (rules)."""

from collections.abc import Sequence
from datetime import datetime

from sublet.counted import counted
from sublet.dates import day, moment
from sublet.mail.letter import REMINDERS_FOOTER, Message, letter
from sublet.subdomains.lifecycle import grace_ends_at, is_renewed_by_operator, restorable_until
from sublet.subdomains.model import Subdomain


def reminder_mail(kind: str, subdomain: Subdomain, user_name: str) -> Message:
    """Return the mail about a milestone of this kind."""
    fqdn, expires_at = subdomain.fqdn, subdomain.expires_at
    if kind == "trashed":
        subject, paragraphs = f"{fqdn} went to the trash", _trashed(subdomain)
    elif kind == "trash_ends":
        subject = f"{fqdn} is about to be purged from the trash"
        paragraphs = [
            f"Your name {fqdn} is in the trash, and is about to be purged.",
            _how_to_restore(subdomain),
        ]
    elif kind == "expired":
        subject = f"{fqdn} has expired"
        paragraphs = [
            f"Your name {fqdn} expired on {moment(expires_at)}.",
            _how_to_renew(subdomain),
            _what_follows(subdomain, "It"),
        ]
    else:
        subject = f"{fqdn} expires on {day(expires_at)}"
        paragraphs = [
            f"Your name {fqdn} expires on {moment(expires_at)}.",
            _how_to_renew(subdomain),
            _what_follows(subdomain, "If it isn't renewed, it"),
        ]
    return Message(subject, letter(user_name, *paragraphs, footer=REMINDERS_FOOTER))


def renewed_mail(subdomain: Subdomain, user_name: str, charged_credits: int) -> Message:
    """Return the mail about an automatic renewal."""
    cost = f"It cost {counted(charged_credits, 'credit')}." if charged_credits else "It cost nothing."
    what = (
        f"{subdomain.fqdn} was renewed automatically, as you asked. {cost} It now expires on "
        f"{moment(subdomain.expires_at)}."
    )
    return Message(f"{subdomain.fqdn} was renewed", letter(user_name, what, footer=_AUTO_RENEW_FOOTER))


def not_renewed_mail(subdomain: Subdomain, user_name: str, why: str, now: datetime) -> Message:
    """Return the mail about a failed automatic renewal. `why` is a sentence."""
    expires = "expired" if subdomain.expires_at <= now else "expires"
    text = letter(
        user_name,
        f"The automatic renewal of {subdomain.fqdn} failed: {why}",
        f"It {expires} on {moment(subdomain.expires_at)}. Sublet tries again every day until the grace "
        "period ends.",
        f"{_how_to_renew(subdomain)} You can change the ceiling on the page of the name.",
        footer=_AUTO_RENEW_FOOTER,
    )
    return Message(f"{subdomain.fqdn} could not be renewed automatically", text)


NAMES_SHOWN_MAX = 20


def closing_mail(domain: str, names: Sequence[str], names_until: datetime | None, user_name: str) -> Message:
    """Return the mail to a holder of names: the platform domain closes, or won't close (`names_until` is
    None).
    """
    listed = ", ".join(names[:NAMES_SHOWN_MAX])
    more = f" and {len(names) - NAMES_SHOWN_MAX} more" if len(names) > NAMES_SHOWN_MAX else ""
    held = f"You hold {counted(len(names), 'name')} there: {listed}{more}."
    footer = f"You get this mail because you hold names under {domain}."
    if names_until is None:
        lines = [f"{domain} will not close. {held}"]
        lines.append("Names can be registered and renewed again. Renew names that have expired meanwhile.")
        return Message(f"{domain} stays open", letter(user_name, *lines, footer=footer))
    lines = [
        f"{domain} closes on {moment(names_until)}. {held}",
        (
            "Until then your names stay as they are, even if they expire earlier. They can't be renewed, and "
            "no name can be registered there."
        ),
        "On that date all names move to the trash and leave the DNS. Move to other names before that date.",
    ]
    return Message(f"{domain} closes on {day(names_until)}", letter(user_name, *lines, footer=footer))


def _trashed(subdomain: Subdomain) -> list[str]:
    if subdomain.names_until is not None:
        return [
            (
                f"{subdomain.domain} has closed, as announced. Your name {subdomain.fqdn} is in the trash "
                "now, and no longer in the DNS."
            ),
            "It can't be renewed or restored.",
        ]
    return [
        f"Your name {subdomain.fqdn} expired on {moment(subdomain.expires_at)} and was not renewed.",
        "It is in the trash now, and no longer in the DNS.",
        _how_to_restore(subdomain),
    ]


_ASK_OPERATOR = "ask the operator: open a ticket on the page Help."


def _how_to_renew(subdomain: Subdomain) -> str:
    if is_renewed_by_operator(subdomain):
        return f"The operator renews it. To keep it, {_ASK_OPERATOR}"
    return "To keep it, renew it on its page. The new term counts from the old expiry."


def _how_to_restore(subdomain: Subdomain) -> str:
    until = restorable_until(subdomain)
    assert until is not None  # noqa: S101 - suspended names get no reminders
    restore = f"You can restore it on its page until {moment(until)}."
    if is_renewed_by_operator(subdomain):
        restore = f"The operator can restore it until {moment(until)}. To have it back, {_ASK_OPERATOR}"
    return f"{restore} If it isn't restored by then, it is purged, and other users can register it later."


def _what_follows(subdomain: Subdomain, start: str) -> str:
    ends_at = grace_ends_at(subdomain)
    assert ends_at is not None  # noqa: S101 - suspended names get no reminders
    return (
        f"{start} stays in the DNS and can still be renewed until {moment(ends_at)}; then it goes to the "
        "trash."
    )


_AUTO_RENEW_FOOTER = (
    "You get this mail because automatic renewal is on for this name. You can turn it off on the page of "
    "the name."
)
