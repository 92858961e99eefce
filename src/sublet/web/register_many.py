"""Register many names at once: paste them, see the price of each, confirm once, download the results."""

import time
from collections.abc import Iterable, Iterator, Sequence
from functools import partial

from msgspec import Struct
from starlette.responses import Response

from sublet.errors import PriceChanged, Refusal, SignInRequired
from sublet.platform_domains.api import ModeShape
from sublet.subdomains.api import AvailabilityShape, UsageShape
from sublet.web.delegation_form import apply_preset, find_presets, told_of_ignored
from sublet.web.filters import credits_, reason
from sublet.web.names import CONCURRENCY, csv_file, refusal_text, run_for_each
from sublet.web.page import PageCall
from sublet.web.pasted import parse_pasted_nameservers
from sublet.web.start import DOMAINS_MAX, find_availability

NAMES_MAX = 50
PORTION_SECONDS = 1.5
"""How long a request registers names. Then the page shows the results, and its form registers the other
names.
"""


class Row(Struct, frozen=True):
    """A name with its offer, which is None if it can't be registered.

    `text` says why, or has the result of a registration.
    """

    fqdn: str
    offer: ModeShape | None = None
    text: str = ""
    is_owned: bool = False


async def send(call: PageCall) -> Response:
    """Show the price of each name.

    With the confirmation, register names for about `PORTION_SECONDS`, and show the results so far.
    """
    if call.form.is_on("apply"):
        apply_preset(call.form)
        return await show(call)
    if call.form.is_on("confirm"):
        rest = [_read_order(line) for line in call.form.lines("order")[:NAMES_MAX]]
        done = [_read_result(line) for line in call.form.lines("result")[:NAMES_MAX]]
        hosts = parse_pasted_nameservers(call.form.get("nameservers", "")).values
        until = time.monotonic() + PORTION_SECONDS
        while rest:
            done += await run_for_each(rest[:CONCURRENCY], partial(_register, call, hosts))
            rest = rest[CONCURRENCY:]
            if isinstance(call.refusal, SignInRequired):
                done += [Row(fqdn, text="Not registered: sign in again first") for fqdn, *_ in rest]
                rest = []
            if time.monotonic() >= until:
                break
        return await show(call, done=done, rest=rest)
    names = list(dict.fromkeys(line.lower() for line in call.form.lines("names")))
    if len(names) > NAMES_MAX:
        return await show(call, problem=f"These are {len(names)} names. Enter {NAMES_MAX} at most.")
    domain = call.form.get("domain", "")
    full = [each if "." in each else f"{each}.{domain}" for each in names]
    found = await run_for_each(full, partial(_find_offers, call))
    # The same name may be typed in several ways, such as with its platform domain and without it.
    return await show(call, found=list({each.fqdn: each for each in found}.values()))


async def download(call: PageCall) -> Response:
    """Return the result as a file."""
    rows = [("name", "registered", "result")]
    for row in map(_read_result, call.form.lines("result")):
        # A spreadsheet would run a cell that begins with one of these characters as a formula.
        text = "'" + row.text if row.text.startswith(("=", "+", "-", "@")) else row.text
        rows.append((row.fqdn, "yes" if row.is_owned else "no", text))
    return csv_file(rows)


def _read_order(line: str) -> tuple[str, str, str]:
    """Return the name, the mode and the price in a line of the form."""
    fqdn, mode, price = (*line.split(), "", "", "")[:3]
    return fqdn, mode, price


def _read_result(line: str) -> Row:
    """Return the result in a line of the form: the name, yes or no, and a text."""
    fqdn, _, said = line.partition(" ")
    registered, _, text = said.partition(" ")
    return Row(fqdn, text=text, is_owned=registered == "yes")


async def _find_offers(call: PageCall, fqdn: str) -> AvailabilityShape | Row:
    """Return the modes in which a name can be registered, or a row with the reason if there is none."""
    try:
        found = await find_availability(call, fqdn)
    except Refusal as refusal:
        return Row(fqdn, text=refusal_text(refusal))
    if found.modes:
        return found
    is_held = found.owned and found.unavailable_reason == "taken"
    return Row(found.fqdn, text=reason(found), is_owned=is_held)


def price_names(
    found: Iterable[AvailabilityShape | Row], wanted: str, usage: UsageShape, balance: int
) -> Iterator[Row]:
    """Yield the names with their offers, in order.

    A name can use the free names and the balance that the names before it leave.

    If `wanted` is empty, a name gets its first mode that is still possible, as in a single registration.
    """
    free_left = usage.remaining
    for each in found:
        if isinstance(each, Row):
            yield each
            continue
        modes = [mode for mode in each.modes if wanted in ("", mode.mode)]
        offer = next((mode for mode in modes if mode.mode != "free" or free_left), None)
        if offer is None and modes:
            yield Row(each.fqdn, text=f"All {usage.limit} free names are in use")
        elif offer is None:
            offered = ", ".join(mode.mode for mode in each.modes)
            yield Row(each.fqdn, text=f"Not on offer in the plan {wanted}, only in {offered}")
        elif offer.price_credits > balance:
            text = (
                f"It costs {credits_(offer.price_credits)}, and the names before it leave you "
                f"{credits_(balance)}"
            )
            yield Row(each.fqdn, text=text)
        else:
            free_left -= offer.mode == "free"
            balance -= offer.price_credits
            yield Row(each.fqdn, offer)


async def _register(call: PageCall, hosts: Sequence[str], order: tuple[str, str, str]) -> Row:
    fqdn, mode, price = order
    members = {
        "fqdn": fqdn,
        "registration_mode": mode,
        "nameservers": list(hosts),
        "confirm": True,
        "max_credits": int(price) if price.isascii() and price.isdigit() and len(price) < 10 else 0,
    }
    try:
        done = await call.api("register", members, key=fqdn)
    except PriceChanged as refusal:
        price_now = credits_(refusal.quote.price) if refusal.quote else "more"
        return Row(fqdn, text=f"It costs {price_now} now. Enter it again to see its price")
    except Refusal as refusal:
        if isinstance(refusal, SignInRequired):
            call.refusal = refusal
        return Row(fqdn, text=refusal_text(refusal))
    status = done.subdomain.status
    text = {"active": "In the DNS", "inactive": "No nameservers yet"}.get(status, done.subdomain.status_label)
    return Row(fqdn, text=text, is_owned=True)


async def show(
    call: PageCall,
    *,
    found: Sequence[AvailabilityShape | Row] = (),
    done: list[Row] | None = None,
    problem: str = "",
    rest: Sequence[tuple[str, ...]] = (),
) -> Response:
    """Show the form, the found offers or the problem, the results so far, and the names that the form
    registers next.
    """
    domains = (await call.api("platform_domains", query={"limit": DOMAINS_MAX})).platform_domains
    usage = (await call.api("free_subdomains")).usage
    balance = (await call.api("credits")).credit_balance
    rows = list(price_names(found, call.form.get("registration_mode", ""), usage, balance))
    good = [each for each in rows if each.offer is not None]
    offers = [mode for each in found if isinstance(each, AvailabilityShape) for mode in each.modes]
    return await call.render(
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
        told=told_of_ignored(parse_pasted_nameservers(call.form.get("nameservers", "")).ignored),
        presets=await find_presets(call),
    )
