"""Compose the message (RFC 5322) of a mail, as text and as HTML, the same at each attempt (rules)."""

import hashlib
import re
from email.headerregistry import Address
from email.message import EmailMessage
from email.policy import SMTP
from email.utils import format_datetime
from functools import cache

from jinja2 import Environment, PackageLoader, StrictUndefined, Template

from sublet.accounts.mailbox import canonical_address
from sublet.mail.model import Mail

WRAPPED_CHARACTERS_MIN = 60
"""The minimum length of a line that is joined with the next line. The line break after a shorter line is
kept.
"""
_LINK = re.compile(r"https?://[!-~]+")


@cache
def _layout() -> Template:
    loader = PackageLoader("sublet.mail")
    environment = Environment(loader=loader, autoescape=True, undefined=StrictUndefined, trim_blocks=True)
    return environment.get_template("layout.html.j2")


def html_of(subject: str, text: str) -> str:
    """Return a text as an HTML document with its paragraphs and line breaks.

    The document loads no other files.

    A paragraph with nothing but a URL becomes a link. All other text is escaped.
    """
    paragraphs = [_join_wrapped_lines(each) for each in re.split(r"\n\s*\n", text.strip())]
    return _layout().render(subject=subject, paragraphs=paragraphs, is_link=_is_link)


def _join_wrapped_lines(paragraph: str) -> list[str]:
    """Return the lines of a paragraph.

    Lines that were wrapped at the width of the text are joined, except quoted lines.
    """
    lines: list[str] = []
    is_wrapped = False
    for line in paragraph.splitlines():
        if is_wrapped:
            lines[-1] += f" {line}"
        else:
            lines.append(line)
        is_wrapped = len(line) >= WRAPPED_CHARACTERS_MIN and not line.startswith(">")
    return lines


def _is_link(lines: list[str]) -> bool:
    return len(lines) == 1 and _LINK.fullmatch(lines[0].strip()) is not None


SUBJECT_CHARACTERS_MAX = 500
_POLICY = SMTP.clone(cte_type="7bit")  # Servers without 8BITMIME accept it.


def compose(mail: Mail, sender_name: str, sender: str) -> EmailMessage:
    """Return the message of a mail, with text and HTML. `sender_name` may be empty.

    Date, Message-ID and all other parts depend on the mail only, so that a mail server can recognise a second
    copy. Line breaks and control characters in header values become spaces, so that a user's text can't add a
    header.

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

    The digest distinguishes mails with the same id in different registries, or before and after a restored
    backup.
    """
    return f"<mail.{mail.id}.{_digest(mail)}@{domain}>"


def _digest(mail: Mail) -> str:
    identity = f"{mail.id} {mail.reference} {mail.created_at.isoformat()}"
    return hashlib.sha256(identity.encode()).hexdigest()[:16]


def one_line(text: str) -> str:
    """Return a text as one line.

    Unprintable characters become spaces, and several spaces become one space.
    """
    return " ".join("".join(char if char.isprintable() else " " for char in text).split())
