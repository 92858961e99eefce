"""Convert the text of a mail to HTML (rules)."""

import re
from functools import cache

from jinja2 import Environment, PackageLoader, StrictUndefined, Template

WRAPPED_CHARACTERS_MIN = 60
"""The minimum length of a line that is joined with the next line. The line break after a shorter line is kept."""
_LINK = re.compile(r"https?://[!-~]+")


@cache
def _layout() -> Template:
    loader = PackageLoader("sublet.mail")
    environment = Environment(loader=loader, autoescape=True, undefined=StrictUndefined, trim_blocks=True)
    return environment.get_template("layout.html.j2")


def html_of(subject: str, text: str) -> str:
    """Return a text as an HTML document with its paragraphs and line breaks. The document loads no other files.

    A paragraph with nothing but a URL becomes a link. All other text is escaped.
    """
    paragraphs = [_join_wrapped_lines(each) for each in re.split(r"\n\s*\n", text.strip())]
    return _layout().render(subject=subject, paragraphs=paragraphs, is_link=_is_link)


def _join_wrapped_lines(paragraph: str) -> list[str]:
    """Return the lines of a paragraph. Lines that were wrapped at the width of the text are joined, except quoted lines."""
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
