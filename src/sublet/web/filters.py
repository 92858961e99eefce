"""Template filters that format values: dates, states, prices."""

import re
from collections.abc import Callable, Iterable, Mapping
from datetime import datetime
from urllib.parse import urlencode

from markupsafe import Markup, escape

from sublet.dns.names import to_unicode
from sublet.subdomains.api import AvailabilityShape

_INDEX = re.compile(r"\[[0-9]{1,4}\]")
_CODE = re.compile(r"`([^`]+)`")
_ABBREVIATION = re.compile(r"\b(?:ds|ns[1-4]|ipv4|ipv6)\b", re.IGNORECASE)
_FIELD_LABELS = {
    "fqdn": "Name",
    "registration_mode": "Plan",
    "coupon_code": "Coupon",
    "max_credits": "Highest price",
    "ds_records": "DS records",
    "github_user": "GitHub user",
    "mail_hosts": "Mail servers",
    "spf": "SPF",
    "ttl": "TTL",
    "text_at": "Name",
    "to": "New holder",
}
"""The labels of members of the API whose name isn't clear as a label."""
CHIP_STYLES = {
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
    "pending": "busy",
    "accepted": "good",
    "open": "busy",
    "answered": "good",
    "closed": "idle",
}
"""The style of each state's chip. A chip also has the state as text."""


def moment(value: datetime | None) -> Markup:
    """Return an instant as `<time>`, to the minute and in UTC."""
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
    """Return a state as a chip with a text, which is the state itself by default."""
    return Markup('<span class="chip {}">{}</span>').format(
        CHIP_STYLES.get(state, "idle"), escape(words or state.replace("_", " "))
    )


def credits_(count: int) -> str:
    """Return a number of credits in words: `no credits`, `1 credit`, `1,200 credits`."""
    return plural(count, "credit") if count else "no credits"


def plural(count: int, one: str, many: str = "") -> str:
    """Return a count with its noun: `1 day`, `3 days`."""
    return f"{count:,} {one if count == 1 else many or one + 's'}"


def sentence(text: str) -> str:
    """Return the message of a field error as a sentence."""
    return text[:1].upper() + text[1:] + ("" if text.endswith((".", "?", "!")) else ".")


def message(text: str) -> Markup:
    """Return a message of the API for a page: backquotes become code."""
    return Markup(_CODE.sub(r"<code>\1</code>", str(escape(text))))  # noqa: S704 - it is escaped


def field_name(name: str) -> str:
    """Return the name of a member of the API as words: `ds_records[0].digest` is `DS records, digest`."""
    if name in _FIELD_LABELS:
        return _FIELD_LABELS[name]
    words = _INDEX.sub("", name).replace("_", " ").replace(".", ", ")
    return _ABBREVIATION.sub(lambda found: found[0].upper(), words[:1].upper() + words[1:])


def query(values: Mapping[str, str]) -> str:
    """Return the query string of the values that aren't empty."""
    return urlencode({name: value for name, value in values.items() if value})


REASONS = {
    "account_suspended": "Your account is suspended",
    "clock_implausible": "Not now: the registry's clock is wrong",
    "registration_closed": "No new registrations here",
    "subdomain_unavailable": "Not available",
    "reserved": "Reserved: choose another name",
    "taken": "Taken",
    "in_trash": "Not free yet",
    "cooling_off": "Not free yet",
    "own taken": "Yours already",
    "own in_trash": "In your trash",
    "registration_mode_not_allowed": "Not on offer",
    "free_quota_exceeded": "All your free names are in use",
    "insufficient_scope": "Your role can't register it",
    "insufficient_credits": "You need more credits",
    "token_restricted": "Not allowed",
}
"""Why a name can't be registered. The key is `unavailable_reason` of `AvailabilityShape`, after `own ` if the
user holds the name, or `reason`.
"""
EVENTS = {
    "registered": "Registered",
    "nameservers_updated": "Nameservers changed",
    "records_updated": "Records changed",
    "nameservers_removed": "Nameservers removed",
    "ds_followed": "DS records followed the zone",
    "nameservers_followed": "Nameservers followed the zone",
    "undelegated": "Taken out of the DNS",
    "automatic_ds_set": "Automatic DS set",
    "auto_renew_set": "Automatic renewal set",
    "renewal_opens": "Renewal opens",
    "expires": "Expires",
    "auto_renew": "Is renewed automatically",
    "auto_renew_failed": "Automatic renewal failed",
    "renewed": "Renewed",
    "transferred": "Got a new holder",
    "deleted": "Deleted",
    "suspended": "Suspended",
    "unsuspended": "No longer suspended",
    "trashed": "Goes to the trash",
    "restored": "Restored",
    "purged": "Leaves the trash for good",
    "released": "Is open to everyone",
    "reminded": "Reminder",
}
"""The texts of the events of a timeline."""


def reason(availability: AvailabilityShape) -> str:
    """Return why a name can't be registered."""
    if availability.unavailable_reason is not None:
        whose = "own " if availability.owned else ""
        return REASONS.get(whose + availability.unavailable_reason, REASONS["subdomain_unavailable"])
    return REASONS.get(availability.reason or "", REASONS["subdomain_unavailable"])


def without_code(warning: str) -> str:
    """Return a warning of the API without the code in front of it."""
    code, _, sentence_ = warning.partition(": ")
    return sentence_ if sentence_ and code.isidentifier() and code.islower() else warning


def event(name: str) -> str:
    """Return the text of a timeline's event."""
    return EVENTS.get(name, name.replace("_", " "))


def pairs(words: Iterable[str]) -> list[tuple[str, str]]:
    """Return words as options of a select field."""
    return [(each, each) for each in words]


FILTERS: dict[str, Callable[..., object]] = {
    "pairs": pairs,
    "to_unicode": to_unicode,
    "reason": reason,
    "without_code": without_code,
    "event": event,
    "message": message,
    "sentence": sentence,
    "field_name": field_name,
    "query": query,
    "moment": moment,
    "day": day,
    "chip": chip,
    "credits": credits_,
    "plural": plural,
}
