"""The HTML of a mail, made from its text (pure). Both say the same, so a mail has one source."""

import re
from functools import cache

from jinja2 import Environment, PackageLoader, StrictUndefined, Template

WRAPPED_CHARACTERS_MIN = 60
"""A line of at least this length goes on in the next one; a shorter one ends where the text ends it."""
_LINK = re.compile(r"https?://[!-~]+")


@cache
def _layout() -> Template:
    loader = PackageLoader("sublet.mail")
    environment = Environment(loader=loader, autoescape=True, undefined=StrictUndefined, trim_blocks=True)
    return environment.get_template("layout.html.j2")


def html_of(subject: str, text: str) -> str:
    """Return a text as an HTML document: its paragraphs, with their line breaks. It loads nothing.

    A paragraph that is one address of a page is a link. Everything else is shown as it is written.
    """
    paragraphs = [_lines(each) for each in re.split(r"\n\s*\n", text.strip())]
    return _layout().render(subject=subject, paragraphs=paragraphs, is_link=_is_link)


def _lines(paragraph: str) -> list[str]:
    """Return the lines of a paragraph, with those joined that only the width of the text divides."""
    lines: list[str] = []
    is_wrapped = False
    for line in paragraph.splitlines():
        if is_wrapped:
            lines[-1] += f" {line}"
        else:
            lines.append(line)
        is_wrapped = len(line) >= WRAPPED_CHARACTERS_MIN
    return lines


def _is_link(lines: list[str]) -> bool:
    return len(lines) == 1 and _LINK.fullmatch(lines[0].strip()) is not None
