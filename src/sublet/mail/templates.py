"""Render the mail templates in `templates/`.

The first line is the subject, the other lines are the text (docs/operating/mail.md).
"""

from functools import cache
from typing import Any

from jinja2 import Environment, PackageLoader, StrictUndefined

from sublet.mail.letter import Message, quoted, without_links

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
}
"""The values that `sublet mail preview` renders a template with."""


@cache
def _environment() -> Environment:
    environment = Environment(  # noqa: S701 - plain text needs no escaping
        loader=PackageLoader("sublet.mail"), undefined=StrictUndefined, keep_trailing_newline=True
    )
    environment.filters |= {"quoted": quoted, "without_links": without_links}
    return environment


def names() -> list[str]:
    """Return the names of the templates."""
    return sorted(each.removesuffix(".txt") for each in _environment().list_templates(extensions=["txt"]))


def render(template: str, **values: object) -> Message:
    """Return the subject and the text of a template with these values."""
    subject, _, text = _environment().get_template(f"{template}.txt").render(**values).partition("\n")
    return Message(subject, text.lstrip("\n"))
