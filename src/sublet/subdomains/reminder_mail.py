"""What mail about a name's dates says: plain text, what happens when, and what can be done (rules)."""

from datetime import datetime

from sublet.counted import counted
from sublet.subdomains.lifecycle import grace_ends_at, restorable_until
from sublet.subdomains.model import Subdomain


def reminder_mail(kind: str, subdomain: Subdomain, user_name: str) -> tuple[str, str]:
    """Return subject and text of the mail that tells of a milestone, or that the name went to the trash."""
    fqdn = subdomain.fqdn
    if kind == "trashed":
        return _mail(f"{fqdn} went to the trash", user_name, _trashed(subdomain))
    if kind == "trash_ends":
        return _mail(f"{fqdn} is about to be purged from the trash", user_name, _trash_ends(subdomain))
    if kind == "expired":
        return _mail(f"{fqdn} has expired", user_name, _expired(subdomain))
    return _mail(f"{fqdn} expires on {_day(subdomain.expires_at)}", user_name, _expires(subdomain))


def renewed_mail(subdomain: Subdomain, user_name: str, charged_credits: int) -> tuple[str, str]:
    """Return subject and text of the mail that tells of an automatic renewal."""
    cost = f"It cost {counted(charged_credits, 'credit')}." if charged_credits else "It cost nothing."
    lines = [f"{subdomain.fqdn} was renewed by itself, as you asked.", cost]
    lines.append(f"It now expires on {_moment(subdomain.expires_at)}.")
    return _mail(f"{subdomain.fqdn} was renewed", user_name, [" ".join(lines)], _ASKED_FOR)


def not_renewed_mail(subdomain: Subdomain, user_name: str, why: str, now: datetime) -> tuple[str, str]:
    """Return subject and text of the mail that tells why an automatic renewal was not made."""
    expires = "expired" if subdomain.expires_at <= now else "expires"
    return _mail(
        f"{subdomain.fqdn} could not be renewed by itself",
        user_name,
        [
            f"{subdomain.fqdn} was to be renewed by itself, and was not: {why}",
            f"It {expires} on {_moment(subdomain.expires_at)}. It is tried again every day, in the days of grace too.",
            f"{_how_to_renew(subdomain)} PUT /subdomains/{subdomain.fqdn}/auto-renew changes what it may cost.",
        ],
        _ASKED_FOR,
    )


def _expires(subdomain: Subdomain) -> list[str]:
    return [
        f"Your name {subdomain.fqdn} expires on {_moment(subdomain.expires_at)}.",
        _how_to_renew(subdomain),
        _what_follows(subdomain, "If it is not renewed, it"),
    ]


def _expired(subdomain: Subdomain) -> list[str]:
    return [
        f"Your name {subdomain.fqdn} expired on {_moment(subdomain.expires_at)}.",
        _how_to_renew(subdomain),
        _what_follows(subdomain, "It"),
    ]


def _trashed(subdomain: Subdomain) -> list[str]:
    return [
        f"Your name {subdomain.fqdn} expired on {_moment(subdomain.expires_at)} and was not renewed.",
        "It is in the trash now, and no longer in the DNS.",
        _how_to_restore(subdomain),
    ]


def _trash_ends(subdomain: Subdomain) -> list[str]:
    return [
        f"Your name {subdomain.fqdn} is in the trash, and is about to be purged.",
        _how_to_restore(subdomain),
    ]


def _how_to_renew(subdomain: Subdomain) -> str:
    return f"To keep it, renew it: POST /subdomains/{subdomain.fqdn}/renew. The new term counts from the old expiry."


def _how_to_restore(subdomain: Subdomain) -> str:
    until = restorable_until(subdomain)
    when = f" until {_moment(until)}" if until else ""
    return (
        f"You can bring it back{when}: POST /subdomains/{subdomain.fqdn}/restore. "
        "After that it is purged, and later free for anybody."
    )


def _what_follows(subdomain: Subdomain, start: str) -> str:
    ends_at = grace_ends_at(subdomain)
    when = f"until {_moment(ends_at)}" if ends_at else "as long as it is held"
    return f"{start} stays in the DNS and can still be renewed {when}; then it goes to the trash."


_REMINDER = "You get this mail since reminders are on for your account; PUT /me/reminders turns them off."
_ASKED_FOR = "You get this mail since you have this name renewed by itself; PUT /subdomains/NAME/auto-renew turns that off."


def _mail(subject: str, user_name: str, paragraphs: list[str], last: str = _REMINDER) -> tuple[str, str]:
    return subject, "\n\n".join([f"Hello {user_name},", *paragraphs, last]) + "\n"


def _day(at: datetime) -> str:
    return f"{at.day} {at:%B %Y}"


def _moment(at: datetime) -> str:
    return f"{_day(at)}, {at:%H:%M} UTC"
