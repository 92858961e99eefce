"""The text of the mail about an automatic change of nameservers and glue (rules)."""

from sublet.dns.types import Delegation
from sublet.health.observe import glue_addresses
from sublet.mail.letter import CHANGES_ADVICE, Message, letter


def change_mail(fqdn: str, user_name: str, before: Delegation, after: Delegation) -> Message:
    """Return the mail about a change of nameservers and glue."""
    old, new = _lines(before), _lines(after)
    lines = [
        *(f"+ {each}" for each in new if each not in old),
        *(f"- {each}" for each in old if each not in new),
    ]
    what = (
        f"The nameservers of {fqdn} have changed. Its zone asked for the change with a CSYNC record, signed "
        "with its key:"
    )
    text = letter(user_name, what, "\n".join(lines), CHANGES_ADVICE)
    return Message(f"The nameservers of {fqdn} have changed", text)


def _lines(delegation: Delegation) -> list[str]:
    glue = glue_addresses(delegation)
    return [" ".join([host, *glue.get(host, ())]) for host in delegation.nameservers]
