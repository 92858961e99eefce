"""The page that registers a name: availability, mode and price, delegation, quote and confirmation."""

from collections.abc import Sequence
from typing import Any

from starlette.responses import Response

from sublet.errors import Refusal
from sublet.platform_domains.api import PlatformDomainShape
from sublet.subdomains.api import AvailabilityShape
from sublet.web.delegation_form import (
    CheckNote,
    apply_preset,
    check_delegation,
    delegation_members,
    find_presets,
    read_delegation_form,
    told_of_ignored,
    told_of_taken,
)
from sublet.web.filters import plural
from sublet.web.page import PageCall
from sublet.web.start import DOMAINS_MAX, find_availability, is_available, split_name, suggest_names

NAME_FIELDS = ("label", "domain", "fqdn", "asked", "search")
"""The fields of the name. `asked` is the name that the page has shown."""


async def show(call: PageCall, note: CheckNote | None = None) -> Response:
    """Show the form, and the result of a check.

    If there is a name, also show whether it can be registered.
    """
    fqdn = _requested_name(call)
    domains = await _find_domains(call)
    label, domain = split_name(fqdn.lower(), domains)
    availability = None
    suggested: list[AvailabilityShape] = []
    if fqdn:
        try:
            availability = await find_availability(call, fqdn)
        except Refusal as refusal:
            call.refusal = call.refusal or refusal
        if availability is None or not is_available(availability):
            suggested = await suggest_names(call, label, domain, domains)
    return await call.render(
        "register",
        domains=domains,
        fqdn=fqdn,
        label=label,
        domain=domain,
        kept=[(name, value) for name, value in call.typed if name not in NAME_FIELDS],
        availability=availability,
        suggested=suggested,
        can_have_records=_can_have_records(domains, fqdn),
        usage=(await call.api("free_subdomains")).usage,
        credit_balance=(await call.api("credits")).credit_balance,
        note=note,
        presets=await find_presets(call),
    )


async def send(call: PageCall) -> Response:
    """Register the name.

    If it costs credits, show the price first, and register it with the confirmation of this price.
    """
    form, fqdn = call.form, _requested_name(call)
    if form.is_on("search") or fqdn != form.get("asked", fqdn):
        return await show(call)  # A price that the page has shown is of the former name.
    if form.is_on("apply"):
        apply_preset(form)
        return await show(call)
    if form.is_on("check"):
        return await show(call, (await check_delegation(call, fqdn)).note)
    pasted = read_delegation_form(form, fqdn)
    members: dict[str, Any] = {
        "fqdn": fqdn,
        "registration_mode": form.text("registration_mode"),
        "coupon_code": form.text("coupon_code"),
        **delegation_members(pasted),
        **confirmation(call),
    }
    done = await call.api("register", members)
    path, name = f"/names/{done.subdomain.fqdn}", done.subdomain
    if not name.nameservers and _can_have_records(await _find_domains(call), name.fqdn):
        path += "/records"
    told = (*told_of_taken(pasted), *told_of_ignored(pasted.ignored))
    paid = [f"It cost {plural(done.charged_credits, 'credit')}."] if done.charged_credits else []
    sentences = " ".join((f"{name.fqdn} is registered.", *paid, *told))
    return call.redirect(path, sentences, is_warning=bool(pasted.ignored))


def confirmation(call: PageCall) -> dict[str, Any]:
    """Return the members that confirm the shown price if the form was sent with the
    button that confirms it.
    """
    if not call.form.is_on("confirm"):
        return {}
    return {"confirm": True, "max_credits": call.form.number("max_credits")}


async def _find_domains(call: PageCall) -> list[PlatformDomainShape]:
    found = await call.api("platform_domains", query={"limit": DOMAINS_MAX})
    return list(found.platform_domains)


def _can_have_records(domains: Sequence[PlatformDomainShape], fqdn: str) -> bool:
    """True if the name is under one of the platform domains whose names may have records."""
    return any(each.record_types and fqdn.lower().endswith(f".{each.domain}") for each in domains)


def _requested_name(call: PageCall) -> str:
    """Return the name to register: `label` and `domain` of the form, or `fqdn`."""
    fields = call.form if call.request.method == "POST" else call.request.query_params
    label, domain = str(fields.get("label", "")).strip(), str(fields.get("domain", ""))
    named = f"{label}.{domain}" if label and domain and "." not in label else label
    return named or str(fields.get("fqdn", "")).strip()
