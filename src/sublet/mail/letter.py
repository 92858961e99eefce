"""How a mail is written (rules; docs/operating/mail.md): the texts that mails share, users' texts in them,
the templates in `templates/`, and the message (RFC 5322) as text and as HTML.

The first line of a template is the subject, the other lines are the text. A message is the same at each
attempt to send it.
"""

import hashlib
import re
from datetime import UTC, datetime
from email.headerregistry import Address
from email.message import EmailMessage
from email.policy import SMTP
from email.utils import format_datetime
from functools import cache
from typing import Any, Final, NamedTuple

from jinja2 import Environment, PackageLoader, StrictUndefined, Template

from sublet.accounts.fields import canonical_address
from sublet.counted import counted
from sublet.dates import day, moment
from sublet.mail.model import Mail

CHARACTERS_MAX: Final = 1000
"""The maximum number of quoted characters of a text."""

_DOT: Final = re.compile(r"(?<=[^\s.])[.\u3002\uff0e\uff61](?=[^\s.])")
"""A dot inside a word, also in the forms that IDNA treats as a dot."""
_COLON: Final = re.compile(r"(?<=[A-Za-z])[:\uff1a](?=\S)|[:\uff1a](?=//)")
"""A colon after the scheme of a URL."""
_AT: Final = re.compile(r"[@\uff20\ufe6b]")


WRAPPED_CHARACTERS_MIN = 60
"""The minimum length of a line that is joined with the next line. The line break after a shorter line is
kept.
"""
_LINK = re.compile(r"https?://[!-~]+")
SUBJECT_CHARACTERS_MAX = 500
_POLICY = SMTP.clone(cte_type="7bit")  # Servers without 8BITMIME accept it.


def without_links(text: str) -> str:
    """Return a text without links: `https://a.example` becomes `https[:]//a[.]example`.

    Mail programs make links of URLs, of host names and of addresses, so all three get brackets. Unprintable
    characters become spaces, because they can reverse or hide text.
    """
    printable = "".join(char if char.isprintable() else " " for char in text)
    return _AT.sub("[at]", _COLON.sub("[:]", _DOT.sub("[.]", printable)))


def quoted(text: str) -> str:
    """Return a text without links, between quotation marks.

    It belongs in the text of a mail, never in the subject.
    """
    inner = without_links(text).replace("“", '"').replace("”", '"')
    return f"“{inner}”"


def quote_lines(text: str) -> str:
    """Return a text as quoted lines without links.

    A text of more than `CHARACTERS_MAX` characters is cut off.
    """
    kept = text.strip()[:CHARACTERS_MAX]
    lines = [without_links(each) for each in kept.splitlines()]
    if len(text.strip()) > CHARACTERS_MAX:
        lines.append("[…]")
    return "\n".join(f"> {each}".rstrip() for each in lines)


class Message(NamedTuple):
    """The subject and the text of a mail."""

    subject: str
    text: str


def name_page(fqdn: str) -> str:
    """Return the path of a name's page in the console."""
    return f"/names/{fqdn}"


EXAMPLE_VALUES: dict[str, Any] = {
    "name": "Ada",
    "code": "123456",
    "link": "https://names.example.net/signup/confirm?token=EXAMPLE",
    "public_url": "https://names.example.net",
    "fqdn": "blog.example.net",
    "inviter": "ada@example.org",
    "slug": "example-cooperative",
    "sender": "the user ada@example.org",
    "recipient": "bob@example.org",
    "state": "declined",
    "transfer_id": 1,
    "until": "2026-11-28 09:30 UTC",
    "organization": "Example Cooperative",
    "role": "member",
    "sentence": "bob@example.org has joined as member.",
    "at": "2026-11-21 09:30 UTC",
    "token_name": "laptop",
    "token_id": 7,
    "created": "“ci” (id 8)",
    "since": datetime(2026, 11, 21, 9, 30, tzinfo=UTC),
    "leaves_at": datetime(2026, 11, 28, 9, 30, tzinfo=UTC),
    "errors": ["ns1.provider.example doesn't answer. Check that it runs."],
    "nameservers": ["ns1.provider.example", "ns2.provider.example"],
    "awaited_since": None,
    "changes": ["+ ns3.provider.example", "- ns1.provider.example"],
    "hosts": ["ns1.shop.example.net"],
    "enclosing": "shop.example.net",
    "ends_soon": False,
    "remaining_count": 1,
    "expires_at": datetime(2026, 12, 21, 9, 30, tzinfo=UTC),
    "grace_ends_at": datetime(2027, 1, 20, 9, 30, tzinfo=UTC),
    "restorable_until": datetime(2027, 2, 19, 9, 30, tzinfo=UTC),
    "by_operator": False,
    "closed_domain": None,
    "charged_credits": 10,
    "why": "The balance of 3 credits is too low.",
    "has_expired": False,
    "domain": "example.net",
    "names": ["blog.example.net", "shop.example.net"],
    "names_until": datetime(2027, 3, 1, tzinfo=UTC),
    "is_receiver": True,
}
"""The values that `sublet mail preview` renders a template with."""


@cache
def _environment() -> Environment:
    environment = Environment(  # noqa: S701 - plain text needs no escaping
        loader=PackageLoader("sublet.mail"), undefined=StrictUndefined, auto_reload=False
    )
    environment.filters |= {
        "quoted": quoted,
        "without_links": without_links,
        "day": day,
        "moment": moment,
        "counted": counted,
    }
    return environment


def names() -> list[str]:
    """Return the names of the templates."""
    return sorted(each.removesuffix(".txt") for each in _environment().list_templates(extensions=["txt"]))


def render(template: str, **values: object) -> Message:
    """Return the subject and the text of a template with these values."""
    subject, _, text = _environment().get_template(f"{template}.txt").render(**values).partition("\n")
    return Message(subject, text.strip("\n") + "\n")


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


def compose(mail: Mail, sender_name: str, sender: str) -> EmailMessage:
    """Return the message of a mail, with text and HTML. `sender_name` may be empty.

    Date, Message-ID and all other parts depend on the mail only, so that a mail server can recognise a second
    copy. A user's text can't add a header (`_header_text`).

    Raises:
        InvalidAddress: the recipient is not an address.
    """
    message = EmailMessage(policy=_POLICY)
    message["From"] = Address(display_name=_header_text(sender_name), addr_spec=sender)
    local, _, domain = canonical_address(mail.recipient).rpartition("@")
    message["To"] = Address(username=local, domain=domain)  # `addr_spec` refuses non-ASCII addresses
    message["Subject"] = _header_text(mail.subject)[:SUBJECT_CHARACTERS_MAX]
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


def _header_text(text: str) -> str:
    """Return a text as the value of a header: one line without encoded words (RFC 2047), because the email
    package would decode them, also line breaks in them.
    """
    return one_line(text).replace("=?", "= ?")


def one_line(text: str) -> str:
    """Return a text as one line.

    Unprintable characters become spaces, and several spaces become one space.
    """
    return " ".join("".join(char if char.isprintable() else " " for char in text).split())
