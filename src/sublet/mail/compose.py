"""A mail as a message of RFC 5322: what is sent is the same at every attempt (pure; no SQL, no clock)."""

import hashlib
from email.headerregistry import Address
from email.message import EmailMessage
from email.policy import SMTP
from email.utils import format_datetime

from sublet.dns.names import InvalidName, parse_host_name
from sublet.mail.model import Mail

SUBJECT_CHARACTERS_MAX = 500
_POLICY = SMTP.clone(cte_type="7bit")  # any server takes it, 8BITMIME or not


def compose(mail: Mail, sender_name: str, sender: str) -> EmailMessage:
    """Return the message of a mail, from a sender's name (may be empty) and its address.

    Date, Message-ID and all else depend on the mail alone, so that a second copy is recognised as one. Line breaks and
    control characters in what becomes a header are spaces: nothing that a user wrote can add a header.

    Raises:
        ValueError: the recipient is no address that can stand in a header.
    """
    message = EmailMessage(policy=_POLICY)
    message["From"] = Address(display_name=one_line(sender_name), addr_spec=sender)
    local, _, domain = envelope_address(mail.recipient).rpartition("@")
    message["To"] = Address(username=local, domain=domain)  # `addr_spec` would refuse what is not ASCII
    message["Subject"] = one_line(mail.subject)[:SUBJECT_CHARACTERS_MAX]
    message["Date"] = format_datetime(mail.created_at)
    message["Message-ID"] = message_id(mail, sender.rpartition("@")[2])
    message["Auto-Submitted"] = "auto-generated"  # RFC 3834, section 5: no robot answers this
    message.set_content(mail.text, charset="utf-8")
    return message


def message_id(mail: Mail, domain: str) -> str:
    """Return the Message-ID of a mail: the same at every attempt, another for every other mail.

    The digest keeps apart what has the same id in two registries, or before and after a backup was restored.
    """
    what = f"{mail.id} {mail.reference} {mail.created_at.isoformat()}"
    return f"<mail.{mail.id}.{hashlib.sha256(what.encode()).hexdigest()[:16]}@{domain}>"


def envelope_address(address: str) -> str:
    """Return an address with its domain in A-labels, as a server without SMTPUTF8 takes it; the local part as it is.

    Raises:
        ValueError: it is no address.
    """
    local, at, domain = address.rpartition("@")
    if not at or not local or not address.isprintable():
        raise ValueError("no e-mail address")
    try:
        return f"{local}@{parse_host_name(domain)}"
    except InvalidName as error:
        raise ValueError("no e-mail address") from error


def one_line(text: str) -> str:
    """Return a text as one line: whatever does not print is a space, and several spaces are one."""
    return " ".join("".join(char if char.isprintable() else " " for char in text).split())
