"""The list of the user's names, and what can be done with several of them: nameservers, automatic renewal,
another holder, trash, or a file.
"""

import asyncio
import csv
import io
from collections.abc import Awaitable, Callable, Iterable, Sequence
from datetime import datetime
from functools import partial
from typing import Any, TypeVar

from msgspec import Struct
from starlette.responses import Response

from sublet.db import Tx
from sublet.errors import Refusal, SignInRequired
from sublet.operations.call import Call
from sublet.subdomains.api import shape_of
from sublet.subdomains.find import list_in_account
from sublet.subdomains.lifecycle import restorable_until
from sublet.subdomains.list_store import ids_with_records
from sublet.subdomains.shapes import SubdomainShape
from sublet.subdomains.store import list_own_subdomains
from sublet.web.delegation_form import apply_preset, delegation_lines, find_presets, told_of_ignored
from sublet.web.filters import sentence
from sublet.web.page import LISTED_MAX, PageCall
from sublet.web.pasted import parse_pasted_nameservers
from sublet.web.transfers import acting_for_chosen_holder, move, other_holders, whose
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
T = TypeVar("T")
R = TypeVar("R")
CHOSEN_MAX = 50
"""The maximum number of chosen names."""
CONCURRENCY = 5
"""The number of concurrent changes. Each may wait for its publication."""
ACTIONS = {
    "nameservers": "Set nameservers",
    "auto-renew": "Set automatic renewal",
    "move": "Move to another holder",
    "trash": "Move to the trash",
    "export": "Download as a file",
}


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
    return await call.render(
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
    """Return until when each name in the trash can be restored. A name may have left the trash since."""
    found = list_own_subdomains(tx, call.registrant.holder.id, [each.fqdn for each in names])
    return {each.id: restorable_until(each) for each in found}


async def _find_attention(call: PageCall) -> list[tuple[SubdomainShape, str]]:
    """Return the names that need attention, each once with its reason, the most urgent first."""
    found: dict[int, tuple[SubdomainShape, str]] = {}
    for query, words in ATTENTION:
        answer = await call.api("list_subdomains", query={**query, "limit": ATTENTION_MAX})
        for each in answer.subdomains:
            found.setdefault(each.id, (each, words))
    return list(found.values())


class ChangeResult(Struct, frozen=True):
    """The result of a change of one name, as a text."""

    fqdn: str
    text: str
    is_done: bool


async def show_many(call: PageCall, results: Sequence[ChangeResult] = ()) -> Response:
    """Show the form of an action for the chosen names, or the results, or return the file."""
    action = str(call.form.get("do") or call.request.query_params.get("do", ""))
    wanted = call.form.lists.get("fqdn") or call.request.query_params.getlist("fqdn")
    chosen = wanted[:CHOSEN_MAX]
    holders = other_holders(call)
    if action not in ACTIONS or not chosen or (action == "move" and not holders):
        if call.refusal is not None:
            raise call.refusal
        return call.redirect("/names", "Choose names and what to do with them.", is_warning=True)
    if action == "export":
        return _file_of(await call.read("list_subdomains", partial(_read_chosen, chosen=chosen)))
    return await call.render(
        "names_many",
        action=action,
        title=ACTIONS[action],
        chosen=chosen,
        left_out=len(wanted) - len(chosen),
        results=results,
        told=told_of_ignored(parse_pasted_nameservers(call.form.get("nameservers", "")).ignored),
        holders=holders,
        presets=await find_presets(call) if action == "nameservers" else [],
    )


async def change_many(call: PageCall) -> Response:
    """Change each of the chosen names, and show the results."""
    if call.form.is_on("apply"):
        apply_preset(call.form)
        return await show_many(call)
    receiver = await acting_for_chosen_holder(call) if call.form.get("do") == "move" else call
    change = _change(call, receiver)
    if change is None:
        return await show_many(call)

    done = "Done" if receiver is call else whose(receiver)

    async def one(fqdn: str) -> ChangeResult:
        try:
            await change(fqdn)
        except SignInRequired:
            raise
        except Refusal as refusal:
            return ChangeResult(fqdn, refusal_text(refusal), is_done=False)
        return ChangeResult(fqdn, done, is_done=True)

    chosen = list(dict.fromkeys(call.form.lists.get("fqdn", [])))[:CHOSEN_MAX]
    return await show_many(call, results=await run_for_each(chosen, one))


def refusal_text(refusal: Refusal) -> str:
    """Return the sentences of a refusal without field names."""
    return " ".join(sentence(each.message) for each in refusal.errors) or refusal.message


async def run_for_each(items: Iterable[T], do: Callable[[T], Awaitable[R]]) -> list[R]:
    """Run a function for each item, for a few at once, and return the results in order."""
    places = asyncio.Semaphore(CONCURRENCY)

    async def one(item: T) -> R:
        async with places:
            return await do(item)

    return await asyncio.gather(*(one(each) for each in items))


def _change(call: PageCall, receiver: PageCall) -> Callable[[str], Awaitable[Any]] | None:
    """Return the function that changes one name as a form says; None if the form has no change.

    `receiver` is the request acting for the holder after a move.
    """
    form, action = call.form, call.form.get("do", "")
    members: dict[str, Any] | None = None
    if action == "move":
        return lambda fqdn: move(call, fqdn, receiver)
    if action == "trash":
        operation = "delete"
    elif action == "auto-renew":
        enabled = form.is_on("enabled")
        operation = "set_auto_renew"
        members = {"enabled": enabled, "max_credits": form.number("max_credits") if enabled else None}
    elif action == "nameservers":
        hosts = parse_pasted_nameservers(form.get("nameservers", "")).values
        operation = "update_nameservers"
        members = {"nameservers": list(hosts), "glue": [], "ds_records": []}
    else:
        return None
    return lambda fqdn: call.api(operation, members, key=fqdn, fqdn=fqdn)


def _read_chosen(tx: Tx, call: Call[None, None], *, chosen: Sequence[str]) -> list[SubdomainShape]:
    """Return the chosen names that the user still has, in order of the alphabet."""
    found = list_in_account(tx, call.actor(), chosen)
    return [shape_of(call, each, tx.now) for each in sorted(found, key=lambda each: each.fqdn)]


def _file_of(names: Iterable[SubdomainShape]) -> Response:
    rows = [("name", "status", "registered", "expires", "nameservers", "ds_records")]
    for each in names:
        registered, expires = (f"{at:%Y-%m-%d}" for at in (each.registered_at, each.expires_at))
        lines = delegation_lines(each)
        nameservers, ds_records = " ".join(lines["nameservers"]), ", ".join(lines["ds_records"])
        rows.append((each.fqdn, each.status, registered, expires, nameservers, ds_records))
    return csv_file(rows)


def csv_file(rows: Iterable[Sequence[str]]) -> Response:
    """Return rows as a file that the browser stores."""
    written = io.StringIO()
    csv.writer(written).writerows(rows)
    headers = {"content-disposition": 'attachment; filename="names.csv"'}
    return Response(written.getvalue(), headers=headers, media_type="text/csv")
