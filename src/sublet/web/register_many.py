"""Register many names at once: paste them, see the price of each, confirm once, download the results."""

import asyncio
import csv
import io
import time
from collections.abc import Awaitable, Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from typing import TypeVar

from starlette.responses import Response

from sublet.errors import PriceChanged, Refusal
from sublet.http.shapes import AvailabilityShape, ModeShape, UsageShape
from sublet.web.filters import credits_, reason, sentence
from sublet.web.page import PageCall
from sublet.web.pasted import parse_pasted_nameservers
from sublet.web.presets import apply_preset, find_presets
from sublet.web.start import DOMAINS_MAX, find_availability

T = TypeVar("T")
NAMES_MAX = 50
AT_ONCE = 5
"""Registrations under way at a time: each may wait for its publication."""
PORTION_SECONDS = 1.5
"""After this time the page shows the results so far. Its form has the other names."""


@dataclass(frozen=True, slots=True)
class Row:
    """A name with its offer, which is None if it can't be registered. `words` is the reason or the result. `is_good` is true if the user has the name."""

    fqdn: str
    offer: ModeShape | None = None
    words: str = ""
    is_good: bool = False


async def show(call: PageCall) -> Response:
    """Show the form."""
    return await _page(call)


async def send(call: PageCall) -> Response:
    """Show the price of each name. After the confirmation, register names for at most `PORTION_SECONDS`, and show the results so far."""
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
    found = await _each(call, [[each if "." in each else f"{each}.{domain}"] for each in names], _find)
    return await _page(call, found=found)


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
    """Return a name, its mode and its price, from a line of the page."""
    fqdn, mode, price = (*line.split(), "", "", "")[:3]
    return fqdn, mode, price


def _read_result(line: str) -> Row:
    """Return the result of a name, from a line of the page: name, yes or no, words."""
    fqdn, _, said = line.partition(" ")
    registered, _, words = said.partition(" ")
    return Row(fqdn, words=words, is_good=registered == "yes")


async def _each(call: PageCall, orders: Sequence[Sequence[str]], do: Callable[..., Awaitable[T]]) -> list[T]:
    places = asyncio.Semaphore(AT_ONCE)

    async def one(order: Sequence[str]) -> T:
        async with places:
            return await do(call, *order)

    return await asyncio.gather(*(one(each) for each in orders))


async def _find(call: PageCall, fqdn: str) -> AvailabilityShape | Row:
    """Return whether a name can be registered; a row if it can't in any mode."""
    try:
        found = await find_availability(call, fqdn)
    except Refusal as refusal:
        return Row(fqdn, words=_words(refusal))
    if found.modes:
        return found
    is_held = found.owned and found.unavailable_reason == "taken"
    return Row(found.fqdn, words=reason(found), is_good=is_held)


def price_names(
    found: Iterable[AvailabilityShape | Row], wanted: str, usage: UsageShape, balance: int
) -> Iterator[Row]:
    """Yield the names with their offers, in their order: each can use the free names and the balance that the names before it leave.

    If no mode is wanted, a name gets its first mode that is still possible, as in a registration.
    """
    free_left = usage.remaining
    for each in found:
        if isinstance(each, Row):
            yield each
            continue
        modes = [mode for mode in each.modes if wanted in ("", mode.mode)]
        offer = next((mode for mode in modes if mode.mode != "free" or free_left), None)
        if offer is None and modes:
            yield Row(each.fqdn, words=f"All {usage.limit} free names are in use")
        elif offer is None:
            offered = ", ".join(mode.mode for mode in each.modes)
            yield Row(each.fqdn, words=f"Not on offer in the mode {wanted}, only in {offered}")
        elif offer.price_credits > balance:
            words = f"It costs {credits_(offer.price_credits)}, but by then you have {credits_(balance)}"
            yield Row(each.fqdn, words=words)
        else:
            free_left -= offer.mode == "free"
            balance -= offer.price_credits
            yield Row(each.fqdn, offer)


async def _register(call: PageCall, fqdn: str, mode: str, price: str) -> Row:
    members = {
        "fqdn": fqdn,
        "registration_mode": mode,
        "nameservers": parse_pasted_nameservers(call.form.get("nameservers", "")),
        "confirm": True,
        "max_credits": int(price) if price.isascii() and price.isdigit() and len(price) < 10 else 0,
    }
    try:
        done = await call.api("register", members, key=fqdn)
    except PriceChanged as refusal:
        price_now = credits_(refusal.quote.price) if refusal.quote else "more"
        return Row(fqdn, words=f"It costs {price_now} now. Enter it again to see its price")
    except Refusal as refusal:
        return Row(fqdn, words=_words(refusal))
    status = done.subdomain.status
    words = {"active": "In the DNS", "inactive": "No nameservers yet"}.get(
        status, done.subdomain.status_label
    )
    return Row(fqdn, words=words, is_good=True)


def _words(refusal: Refusal) -> str:
    """Return why a name is refused, without the names of fields."""
    return " ".join(sentence(each.message) for each in refusal.errors) or refusal.message


async def _page(
    call: PageCall,
    *,
    found: Sequence[AvailabilityShape | Row] = (),
    done: list[Row] | None = None,
    problem: str = "",
    rest: Sequence[tuple[str, ...]] = (),
) -> Response:
    domains = (await call.api("platform_domains", query={"limit": DOMAINS_MAX})).platform_domains
    usage = (await call.api("free_subdomains")).usage
    balance = (await call.api("credits")).credit_balance
    rows = list(price_names(found, call.form.get("registration_mode", ""), usage, balance))
    good = [each for each in rows if each.offer is not None]
    offers = [mode for each in found if isinstance(each, AvailabilityShape) for mode in each.modes]
    return call.render(
        "register_many",
        status=422 if problem else 200,
        domains=domains,
        modes=list(dict.fromkeys(mode.mode for mode in offers)),
        rows=rows,
        good=good,
        free=[each for each in good if each.offer is not None and each.offer.mode == "free"],
        total=sum(each.offer.price_credits for each in good if each.offer is not None),
        usage=usage,
        balance=balance,
        done=done,
        rest=rest,
        problem=problem,
        presets=await find_presets(call),
    )
