"""The list of the user's names, with filters, search, order and pages, and what can be done with several of
them.
"""

from collections.abc import Callable, Sequence
from datetime import datetime
from functools import partial
from typing import Any

from starlette.responses import Response

from sublet.db import Tx
from sublet.operations.call import Call
from sublet.subdomains.find import find_in_account_or_trash
from sublet.subdomains.lifecycle import restorable_until
from sublet.subdomains.list_store import ids_with_records
from sublet.subdomains.shapes import SubdomainShape
from sublet.web.many_names import CHOSEN_MAX
from sublet.web.page import LISTED_MAX, PageCall
from sublet.web.transfers import other_holders
from sublet.web.waiting import NOTHING_WAITS, list_waiting_items

ATTENTION_MAX = 10
"""The maximum number of shown names for each reason."""
ATTENTION: tuple[tuple[dict[str, object], str], ...] = (
    ({"status": "failed"}, "its publication failed"),
    ({"status": "expired"}, "it has expired"),
    ({"health": "broken"}, "its nameservers don't work"),
    ({"renewal_available": True}, "it can be renewed"),
)
ORDERS: dict[str, tuple[str, Callable[[SubdomainShape], Any]]] = {
    "name": ("name", lambda each: each.fqdn),
    "expires": ("expiry", lambda each: each.expires_at),
}
"""The orders besides the newest first: their text, and the key of a name."""


async def show_list(call: PageCall) -> Response:
    """Show the names, or those that match the filters. In another order than by age, all are on one page."""
    filters = call.filters("q", "status", "domain", "health", "sort", "cursor")
    order = ORDERS.get(filters["sort"])
    asked = {name: value for name, value in filters.items() if name != "sort"}
    found = await call.find_page("list_subdomains", asked, **({"limit": LISTED_MAX} if order else {}))
    names = list(found.subdomains) if found else []
    if order is not None:
        names.sort(key=order[1])
    attention = [] if call.refusal or any(filters.values()) else await _find_attention(call)
    is_filtered = any(value for name, value in asked.items() if name != "cursor")
    waiting = NOTHING_WAITS if is_filtered or filters["cursor"] else call.waiting
    without = [each.id for each in names if not each.nameservers]
    return call.render(
        "names",
        filters=filters,
        with_records=await call.read("list_subdomains", lambda tx, _call: ids_with_records(tx, without))
        if without
        else set(),
        chosen=CHOSEN_MAX if call.request.query_params.get("choose") == "all" else 0,
        chosen_max=CHOSEN_MAX,
        found=found,
        names=names,
        orders=[("", "newest first"), *((key, words) for key, (words, _) in ORDERS.items())],
        attention=attention,
        waiting=await call.shared.calls.context.db.read(list_waiting_items, call.as_call(), waiting),
        restorable=await call.read("list_subdomains", partial(_read_restorable, names=names))
        if filters["status"] == "trashed"
        else {},
        may_move=bool(other_holders(call)),
        is_filtered=is_filtered,
    )


def _read_restorable(
    tx: Tx, call: Call[None, None], *, names: Sequence[SubdomainShape]
) -> dict[int, datetime | None]:
    """Return until when each name in the trash can be restored."""
    actor = call.actor()
    return {each.id: restorable_until(find_in_account_or_trash(tx, actor, str(each.id))) for each in names}


async def _find_attention(call: PageCall) -> list[tuple[SubdomainShape, str]]:
    """Return the names that need attention, each once with its reason, the most urgent first."""
    found: dict[int, tuple[SubdomainShape, str]] = {}
    for query, words in ATTENTION:
        answer = await call.api("list_subdomains", query={**query, "limit": ATTENTION_MAX})
        for each in answer.subdomains:
            found.setdefault(each.id, (each, words))
    return list(found.values())
