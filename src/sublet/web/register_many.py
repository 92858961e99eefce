"""Register many names at once: paste them, see what each costs, confirm once, download what became of them."""

import asyncio
import csv
import io
import time
from collections.abc import Awaitable, Callable, Sequence
from dataclasses import dataclass

from starlette.responses import Response

from sublet.errors import Refusal, SubdomainNotFound
from sublet.web.filters import reason
from sublet.web.page import PageCall
from sublet.web.pasted import parse_pasted_nameservers
from sublet.web.presets import apply_preset, find_presets
from sublet.web.start import DOMAINS_MAX, find_availability

NAMES_MAX = 50
AT_ONCE = 5
"""Registrations under way at a time: each may wait for its publication."""
PORTION_SECONDS = 1.5
"""After this time the page shows what is done; its form has the rest."""


@dataclass(frozen=True, slots=True)
class Row:
    """A name with its price, None if it can't be registered; `words` say why, or what became of it. `is_good`: it is the user's."""

    fqdn: str
    price: int | None = None
    words: str = ""
    is_good: bool = False


async def show(call: PageCall) -> Response:
    """Show the form."""
    return await _page(call)


async def send(call: PageCall) -> Response:
    """Show what each name costs; once that is confirmed, register them, as many as fit into a portion of time."""
    if call.form.is_on("apply"):
        apply_preset(call.form)
        return await _page(call)
    if call.form.is_on("confirm"):
        rest = [_read_order(line) for line in call.form.lines("order")[:NAMES_MAX]]
        done = [_read_result(line) for line in call.form.lines("result")[:NAMES_MAX]]
        until = time.monotonic() + PORTION_SECONDS
        while rest:
            done += await _each(call, rest[:AT_ONCE], _register)
            rest = rest[AT_ONCE:]
            if time.monotonic() >= until:
                break
        return await _page(call, done=done, rest=rest)
    names = list(dict.fromkeys(line.lower() for line in call.form.lines("names")))
    if len(names) > NAMES_MAX:
        return await _page(call, problem=f"These are {len(names)} names. Send {NAMES_MAX} at most at once.")
    domain = call.form.get("domain", "")
    rows = await _each(call, [[each if "." in each else f"{each}.{domain}"] for each in names], _quote)
    return await _page(call, rows=rows)


async def download(call: PageCall) -> Response:
    """Return the result as a file."""
    written = io.StringIO()
    writer = csv.writer(written)
    writer.writerow(("name", "registered", "result"))
    for row in map(_read_result, call.form.lines("result")):
        # A spreadsheet would take a cell with one of these for a formula.
        words = "'" + row.words if row.words.startswith(("=", "+", "-", "@")) else row.words
        writer.writerow((row.fqdn, "yes" if row.is_good else "no", words))
    headers = {"content-disposition": 'attachment; filename="names.csv"'}
    return Response(written.getvalue(), headers=headers, media_type="text/csv")


def _read_order(line: str) -> tuple[str, ...]:
    """Return a name and its price, from a line of the page."""
    fqdn, _, price = line.partition(" ")
    return fqdn, price


def _read_result(line: str) -> Row:
    """Return what became of a name, from a line of the page: name, yes or no, words."""
    fqdn, _, said = line.partition(" ")
    registered, _, words = said.partition(" ")
    return Row(fqdn, words=words, is_good=registered == "yes")


async def _each(
    call: PageCall, orders: Sequence[Sequence[str]], do: Callable[..., Awaitable[Row]]
) -> list[Row]:
    places = asyncio.Semaphore(AT_ONCE)

    async def one(order: Sequence[str]) -> Row:
        async with places:
            return await do(call, *order)

    return await asyncio.gather(*(one(each) for each in orders))


async def _quote(call: PageCall, fqdn: str) -> Row:
    try:
        found = await find_availability(call, fqdn)
    except Refusal as refusal:
        return Row(fqdn, words=refusal.message)
    wanted = call.form.get("registration_mode")
    offer = next((each for each in found.modes if each.mode == wanted or not wanted), None)
    if offer is None:
        if found.reason == "subdomain_unavailable" and await _is_own(call, found.fqdn):
            return Row(found.fqdn, words="Yours already", is_good=True)
        return Row(found.fqdn, words=reason(found) if not found.modes else "Not on offer in this mode")
    return Row(found.fqdn, offer.price_credits)


async def _register(call: PageCall, fqdn: str, price: str) -> Row:
    members = {
        "fqdn": fqdn,
        "registration_mode": call.form.text("registration_mode"),
        "nameservers": parse_pasted_nameservers(call.form.get("nameservers", "")),
        "confirm": True,
        "max_credits": int(price) if price.isascii() and price.isdigit() and len(price) < 10 else 0,
    }
    try:
        done = await call.api("register", members, key=fqdn)
    except Refusal as refusal:
        return Row(fqdn, words=refusal.message)
    return Row(fqdn, done.charged_credits, done.subdomain.status_label, is_good=True)


async def _is_own(call: PageCall, fqdn: str) -> bool:
    try:
        await call.api("get_subdomain", fqdn=fqdn)
    except SubdomainNotFound:
        return False
    return True


async def _page(
    call: PageCall,
    *,
    rows: list[Row] | None = None,
    done: list[Row] | None = None,
    problem: str = "",
    rest: Sequence[tuple[str, ...]] = (),
) -> Response:
    domains = (await call.api("platform_domains", query={"limit": DOMAINS_MAX})).platform_domains
    good = [each for each in rows or [] if each.price is not None]
    return call.render(
        "register_many",
        status=422 if problem else 200,
        domains=domains,
        modes=list(dict.fromkeys(mode.mode for each in domains for mode in each.modes)),
        rows=rows,
        good=good,
        total=sum(each.price or 0 for each in good),
        done=done,
        rest=rest,
        problem=problem,
        presets=await find_presets(call),
    )
