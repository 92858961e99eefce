"""Compose the message (RFC 5322) of a mail, the same at each attempt (rules)."""

import hashlib
from email.headerregistry import Address
from email.message import EmailMessage
from email.policy import SMTP
from email.utils import format_datetime

from sublet.accounts.mailbox import canonical_address
from sublet.mail.html import html_of
from sublet.mail.model import Mail

SUBJECT_CHARACTERS_MAX = 500
_POLICY = SMTP.clone(cte_type="7bit")  # Servers without 8BITMIME accept it.


def compose(mail: Mail, sender_name: str, sender: str) -> EmailMessage:
    """Return the message of a mail, with text and HTML. `sender_name` may be empty.

    Date, Message-ID and all other parts depend on the mail only, so that a mail server can recognise a second copy. Line breaks and
    control characters in header values become spaces, so that a user's text can't add a header.

    Raises:
        InvalidAddress: the recipient is not an address.
    """
    message = EmailMessage(policy=_POLICY)
    message["From"] = Address(display_name=one_line(sender_name), addr_spec=sender)
    local, _, domain = canonical_address(mail.recipient).rpartition("@")
    message["To"] = Address(username=local, domain=domain)  # `addr_spec` refuses non-ASCII addresses
    message["Subject"] = one_line(mail.subject)[:SUBJECT_CHARACTERS_MAX]
    message["Date"] = format_datetime(mail.created_at)
    message["Message-ID"] = message_id(mail, sender.rpartition("@")[2])
    message["Auto-Submitted"] = "auto-generated"  # RFC 3834, section 5: prevents automatic responses
    message.set_content(mail.text, charset="utf-8")
    message.add_alternative(html_of(message["Subject"], mail.text), subtype="html", charset="utf-8")
    message.set_boundary(f"part.{_digest(mail)}")  # the default boundary is random
    return message


def message_id(mail: Mail, domain: str) -> str:
    """Return the Message-ID of a mail. It is unique, and the same at every attempt.

    The digest distinguishes mails with the same id in different registries, or before and after a restored backup.
    """
    return f"<mail.{mail.id}.{_digest(mail)}@{domain}>"


def _digest(mail: Mail) -> str:
    identity = f"{mail.id} {mail.reference} {mail.created_at.isoformat()}"
    return hashlib.sha256(identity.encode()).hexdigest()[:16]


def one_line(text: str) -> str:
    """Return a text as one line. Unprintable characters become spaces, and several spaces become one space."""
    return " ".join("".join(char if char.isprintable() else " " for char in text).split())
