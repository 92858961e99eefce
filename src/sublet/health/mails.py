"""The texts of mails about a name whose delegation doesn't work (rules)."""

from sublet.health.findings import worst_first
from sublet.health.model import Health, Level
from sublet.subdomains.nameserver_notices import moment

_LAST = "You get this mail because reminders are on for your account; PUT /me/reminders turns them off."


def breakage_mail(fqdn: str, user_name: str, health: Health) -> tuple[str, str]:
    """Return subject and text of the mail about a name that has been broken for a while."""
    errors = [each for each in worst_first(health.findings) if each.level == Level.ERROR]
    lines = [f"- {each.message} {each.hint}" for each in errors]
    return _mail(
        f"{fqdn} doesn't work",
        user_name,
        [
            f"Resolvers can't find your name {fqdn}, at least since {moment(health.since)}.",
            "\n".join(lines),
            f"GET /subdomains/{fqdn}/health shows all findings; POST there checks again.",
        ],
    )


def recovery_mail(fqdn: str, user_name: str, health: Health) -> tuple[str, str]:
    """Return subject and text of the mail about a name that works again."""
    return _mail(
        f"{fqdn} works again", user_name, [f"Your name {fqdn} works again, since {moment(health.since)}."]
    )


def _mail(subject: str, user_name: str, paragraphs: list[str]) -> tuple[str, str]:
    return subject, "\n\n".join([f"Hello {user_name},", *paragraphs, _LAST]) + "\n"
