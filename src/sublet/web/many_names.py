"""Do one thing with several names that were chosen in the list: nameservers, automatic renewal, another
holder, trash, or a file.
"""

import asyncio
import csv
import io
from collections.abc import Awaitable, Callable, Iterable, Sequence
from functools import partial
from typing import Any, TypeVar

from msgspec import Struct
from starlette.responses import Response

from sublet.db import Tx
from sublet.errors import Refusal, SignInRequired
from sublet.operations.call import Call
from sublet.subdomains.api import shape_of
from sublet.subdomains.find import list_in_account
from sublet.subdomains.shapes import SubdomainShape
from sublet.web.filters import sentence
from sublet.web.page import PageCall
from sublet.web.pasted import parse_pasted_nameservers
from sublet.web.presets import apply_preset, find_presets
from sublet.web.sign_in import sign_in_again
from sublet.web.transfers import acting_for_chosen_holder, move, other_holders, whose

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


class ChangeResult(Struct, frozen=True):
    """The result of a change of one name, as a text."""

    fqdn: str
    text: str
    is_done: bool


async def show(call: PageCall, results: Sequence[ChangeResult] = ()) -> Response:
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
    if asked := sign_in_again(call):
        return asked
    return call.render(
        "names_many",
        action=action,
        title=ACTIONS[action],
        chosen=chosen,
        left_out=len(wanted) - len(chosen),
        results=results,
        holders=holders,
        presets=await find_presets(call) if action == "nameservers" else [],
    )


async def send(call: PageCall) -> Response:
    """Change each of the chosen names, and show the results."""
    if call.form.is_on("apply"):
        apply_preset(call.form)
        return await show(call)
    receiver = await acting_for_chosen_holder(call) if call.form.get("do") == "move" else call
    change = _change(call, receiver)
    if change is None:
        return await show(call)

    done = "Done" if receiver is call else whose(receiver)

    async def one(fqdn: str) -> ChangeResult:
        try:
            await change(fqdn)
        except SignInRequired:
            raise
        except Refusal as refusal:
            text = " ".join(sentence(each.message) for each in refusal.errors) or refusal.message
            return ChangeResult(fqdn, text, is_done=False)
        return ChangeResult(fqdn, done, is_done=True)

    chosen = list(dict.fromkeys(call.form.lists.get("fqdn", [])))[:CHOSEN_MAX]
    return await show(call, results=await run_for_each(chosen, one))


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
    written = io.StringIO()
    writer = csv.writer(written)
    writer.writerow(("name", "status", "registered", "expires", "nameservers", "ds_records"))
    for each in names:
        ds_records = (
            f"{one.key_tag} {one.algorithm} {one.digest_type} {one.digest}" for one in each.ds_records
        )
        days = (f"{at:%Y-%m-%d}" for at in (each.registered_at, each.expires_at))
        writer.writerow((each.fqdn, each.status, *days, " ".join(each.nameservers), ", ".join(ds_records)))
    headers = {"content-disposition": 'attachment; filename="names.csv"'}
    return Response(written.getvalue(), headers=headers, media_type="text/csv")
