"""The page of the account's activity, with filters."""

from collections.abc import Iterator
from typing import Any

from starlette.responses import Response

from sublet.errors import Refusal
from sublet.web.page import PageCall

PAGE_LIMIT = 50
FILTERS = ("action", "token_id", "since", "until", "cursor")
BY_WORDS = {"user": "you", "other_user": "another person", "operator": "the operator", "system": "the system"}


async def show(call: PageCall) -> Response:
    """Show a page of the activity. The filters are days in UTC; the day of `until` is included."""
    asked = {name: call.request.query_params.get(name, "") for name in FILTERS}
    query: dict[str, Any] = {**asked, "limit": PAGE_LIMIT}
    for name, time in (("since", "T00:00:00Z"), ("until", "T23:59:59.999999Z")):
        query[name] = asked[name] and asked[name] + time
    try:
        found = await call.api("activity", query=query)
    except Refusal as refusal:
        return call.render("activity", refusal=refusal, asked=asked, events=[], page=None)
    events = [(each, BY_WORDS[each.by], list(_changes(each))) for each in found.activity]
    return call.render("activity", asked=asked, events=events, page=found.page)


def _changes(event: Any) -> Iterator[tuple[str, str, str]]:
    """Yield each member that an event changed, with its old and new value."""
    before, after = event.before or {}, event.after or {}
    for name in dict.fromkeys((*before, *after)):
        if before.get(name) != after.get(name):
            yield name, _words(before.get(name)), _words(after.get(name))


def _words(value: Any) -> str:
    if isinstance(value, list):
        return ", ".join(_words(each) for each in value) or "none"
    if isinstance(value, dict):
        return " ".join(_words(each) for each in value.values() if each is not None)
    return {None: "", True: "yes", False: "no"}.get(value, str(value))
