"""How pages show values: dates, states, prices."""

import re
from collections.abc import Mapping
from datetime import datetime
from urllib.parse import urlencode

from markupsafe import Markup, escape

_INDEX = re.compile(r"\[[0-9]{1,4}\]")
_SHORT = re.compile(r"\b(?:ds|ns[1-4]|ipv4|ipv6)\b", re.IGNORECASE)
STATES = {
    "active": "good",
    "provisioning": "busy",
    "failed": "bad",
    "expired": "bad",
    "suspended": "bad",
    "inactive": "idle",
    "trashed": "idle",
    "healthy": "good",
    "degraded": "warn",
    "broken": "bad",
    "unknown": "idle",
}
"""The look of a state's chip, which always has the state's words too."""


def moment(value: datetime | None) -> Markup:
    """Return an instant as `<time>`, to the minute and in UTC; scripts may show it in the reader's zone."""
    if value is None:
        return Markup("—")
    return Markup('<time datetime="{}">{} UTC</time>').format(
        value.strftime("%Y-%m-%dT%H:%M:%SZ"), value.strftime("%Y-%m-%d %H:%M")
    )


def day(value: datetime | None) -> Markup:
    """Return the day of an instant as `<time>`."""
    if value is None:
        return Markup("—")
    return Markup('<time datetime="{}">{}</time>').format(
        value.strftime("%Y-%m-%dT%H:%M:%SZ"), value.strftime("%Y-%m-%d")
    )


def chip(state: str, words: str = "") -> Markup:
    """Return a state as a chip with its words."""
    return Markup('<span class="chip {}">{}</span>').format(
        STATES.get(state, "idle"), escape(words or state.replace("_", " "))
    )


def credits_(count: int) -> str:
    """Return a number of credits in words: `free`, `1 credit`, `1,200 credits`."""
    if count == 0:
        return "free"
    return f"{count:,} credit{'' if count == 1 else 's'}"


def plural(count: int, one: str, many: str = "") -> str:
    """Return a count with its noun: `1 day`, `3 days`."""
    return f"{count:,} {one if count == 1 else many or one + 's'}"


def sentence(text: str) -> str:
    """Return the words about a field as a sentence."""
    return text[:1].upper() + text[1:] + ("" if text.endswith((".", "?", "!")) else ".")


def field_name(name: str) -> str:
    """Return the name of a member of the API as words: `ds_records[0].digest` is `DS records, digest`."""
    words = _INDEX.sub("", name).replace("_", " ").replace(".", ", ")
    return _SHORT.sub(lambda found: found[0].upper(), words[:1].upper() + words[1:])


def query(values: Mapping[str, str]) -> str:
    """Return the query string of the values that aren't empty."""
    return urlencode({name: value for name, value in values.items() if value})


FILTERS = {
    "sentence": sentence,
    "field_name": field_name,
    "query": query,
    "moment": moment,
    "day": day,
    "chip": chip,
    "credits": credits_,
    "plural": plural,
}
