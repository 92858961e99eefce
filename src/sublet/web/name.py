"""The pages of a name: its state, its allowed actions, its timeline, and the forms that change it."""

from typing import Any

from msgspec import Struct
from starlette.responses import Response

from sublet.child_zones.api import AutomaticDsShape
from sublet.child_zones.api import answer_of as automatic_ds_answer
from sublet.child_zones.automatic_ds import AutomaticDsView
from sublet.db import Tx
from sublet.errors import PaymentConfirmationRequired, Refusal, SignInRequired, SubdomainNotFound
from sublet.health.api import HealthShape
from sublet.health.api import answer_of as health_answer
from sublet.health.due_checks import is_checked
from sublet.health.view_health import health_of
from sublet.operations.call import Call
from sublet.operations.conditional import entity_tag
from sublet.subdomains.api import SubdomainAnswer, UsageShape, free_subdomains, shape_of
from sublet.subdomains.dates.api import AutoRenewShape, TimelineAnswer, auto_renew_of, past_of, timeline_of
from sublet.subdomains.find import find_in_account_or_trash
from sublet.subdomains.shapes import SubdomainShape
from sublet.subdomains.transfers.api import TransferShape, pending_offer_of
from sublet.web.delegation_form import (
    CheckedForm,
    apply_preset,
    changed_fields,
    check_delegation,
    delegation_lines,
    delegation_members,
    find_presets,
    form_mark,
    read_delegation_form,
)
from sublet.web.drawing import draw_timeline
from sublet.web.filters import without_code
from sublet.web.form import KEY_FIELD, new_key
from sublet.web.page import PageCall
from sublet.web.records import record_lines, stored_records
from sublet.web.register import confirmation
from sublet.web.sign_in import sign_in_again
from sublet.web.transfers import acting_for_chosen_holder, move, other_holders, show_moved

_NOT_STORED = "The change is not stored"
_ONLY_REMOVED = "The records are removed, but the nameservers are not stored. Correct the form, and try again"


async def show(call: PageCall) -> Response:
    """Show the name, live or in the trash."""
    shown = await call.read("get_subdomain", _read_overview)
    subdomain, timeline = shown.name, shown.timeline
    events = timeline.timeline
    actions = timeline.allowed_actions if "subdomains:write" in call.scopes else ()
    is_published = subdomain.status == "active" and "published" in call.request.query_params
    points = bool(subdomain.nameservers or shown.records)
    is_new = not points and "update_nameservers" in actions
    is_being_published = subdomain.status in ("provisioning", "failed") or bool(call.message) or is_published
    return await call.render(
        "name",
        name=subdomain,
        progress=is_being_published and points and subdomain.status != "trashed",
        is_published=is_published,
        actions=actions,
        is_new=is_new,
        presets=await find_presets(call, excluded_fqdn=subdomain.fqdn) if is_new else [],
        records=shown.records,
        can_have_records=shown.can_have_records,
        warnings=timeline.warnings,
        when={each.event: each.at for each in events if not each.past},
        past=[each for each in events if each.past],
        drawing=draw_timeline(events, call.shared.calls.context.db.now()),
        ahead=[each for each in events if not each.past],
        lines=delegation_lines(subdomain),
        usage=shown.usage,
        auto_renew=shown.auto_renew,
        health=shown.health,
        is_checked=shown.is_checked,
        automatic_ds=shown.automatic_ds,
        transfer=shown.transfer,
    )


class _Overview(Struct, frozen=True, kw_only=True):
    """What the page of a name shows. A name in the trash has only its timeline, and the user's free quota."""

    name: SubdomainShape
    timeline: TimelineAnswer
    records: list[str]
    can_have_records: bool
    usage: UsageShape | None = None
    auto_renew: AutoRenewShape | None = None
    health: HealthShape | None = None
    is_checked: bool = False
    automatic_ds: AutomaticDsShape | None = None
    transfer: TransferShape | None = None


def _read_overview(tx: Tx, call: Call[None, None]) -> _Overview:
    subdomain = find_in_account_or_trash(tx, call.actor(), call.path["fqdn"])
    past = past_of(tx, subdomain)
    name = shape_of(call, subdomain, tx.now)
    usage = free_subdomains(tx, call).usage if subdomain.trashed_at is not None else None
    quota_left = usage is None or usage.remaining > 0
    timeline = timeline_of(tx, call, subdomain, past, quota_left=quota_left)
    records, can_have_records = record_lines(subdomain.records), subdomain.accepts_records
    if usage is not None:
        return _Overview(
            name=name, timeline=timeline, records=records, can_have_records=can_have_records, usage=usage
        )
    health = health_of(tx, subdomain)
    checks_enabled = call.context.checker is not None
    return _Overview(
        name=name,
        timeline=timeline,
        records=records,
        can_have_records=can_have_records,
        auto_renew=auto_renew_of(tx, subdomain, past),
        health=health_answer(health, checks_enabled=checks_enabled).health,
        is_checked=is_checked(subdomain),
        # The page doesn't show the sources of DS records.
        automatic_ds=automatic_ds_answer(AutomaticDsView(health.states, ())).automatic_ds,
        transfer=pending_offer_of(tx, call, subdomain),
    )


async def show_delegation(call: PageCall) -> Response:
    """Ask the name servers of the parent zone, and show their answers."""
    fqdn, found = call.parameters["fqdn"], None
    try:
        found = await call.api("delegation", fqdn=fqdn)
    except SubdomainNotFound:
        raise
    except Refusal as refusal:  # Too many requests run at once. The page has a link to ask again.
        call.refusal = refusal
    return await call.render("delegation", fqdn=fqdn, found=found)


async def show_nameservers(call: PageCall) -> Response:
    """Show the form for nameservers, glue and DS records."""
    if asked := sign_in_again(call):
        return asked
    subdomain = await _find(call)
    return await _render_nameservers(call, subdomain, etag=_etag(subdomain))


async def change_nameservers(call: PageCall) -> Response:
    """Show what the form changes. With the confirmation of what was shown, change the delegation.

    Well-formed nameservers that replace nothing need no confirmation, unless their check says something.
    """
    subdomain = await _find(call)
    is_confirmed = call.form.is_on("confirm") and call.form.get("shown") == form_mark(call.form)
    # Only the confirmation is of what the page has shown. What a form changes is compared with the present.
    etag = call.form.get("etag", "") if is_confirmed else _etag(subdomain)
    if call.form.is_on("apply"):
        apply_preset(call.form)
        return await _render_nameservers(call, subdomain, etag=etag)
    records, _ = await stored_records(call)
    if not is_confirmed:
        try:
            checked = await check_delegation(call, subdomain.fqdn)
        except Refusal as refusal:
            call.refusal = refusal
            return await _render_nameservers(call, subdomain, etag=etag)
        replaces_nothing = not records and not subdomain.nameservers
        is_plain = checked.note.kind == "good" and not (checked.note.warnings or checked.note.taken)
        if not (replaces_nothing and checked.delegation.nameservers and is_plain):
            return await _show_changes(call, subdomain, checked, records, etag)
    title = _NOT_STORED
    members = delegation_members(read_delegation_form(call.form, subdomain.fqdn))
    try:
        if records:
            # The tag of the name changes with its records, and no one else can set nameservers before them.
            etag = ""
            tag = call.form.get("records_etag", "")
            await call.api("replace_records", {"records": []}, fqdn=subdomain.fqdn, if_match=tag)
            title = _ONLY_REMOVED
        done = await call.api("update_nameservers", members, fqdn=subdomain.fqdn, if_match=etag)
    except SignInRequired as refusal:
        checked = await check_delegation(call, subdomain.fqdn)
        call.refusal = refusal
        return await _show_changes(call, subdomain, checked, records, _etag(subdomain))
    except Refusal as refusal:
        call.refusal = refusal
        return await _render_nameservers(call, subdomain, etag=etag, title=title)
    # The page of the name shows the stored warnings anyway, so the message has only the others.
    stored = (await call.api("timeline", fqdn=subdomain.fqdn)).warnings
    others = [without_code(each) for each in done.provisioning.warnings if each not in stored]
    sentences = " ".join(["The change is stored.", *others])
    return call.redirect(f"/names/{subdomain.fqdn}", sentences, is_warning=bool(others))


async def _show_changes(
    call: PageCall, subdomain: SubdomainShape, checked: CheckedForm, records: list[str], etag: str
) -> Response:
    """Show the changes and the result of their check, and the entries as they would be stored."""
    lines = delegation_lines(checked.delegation)
    changed = changed_fields(delegation_lines(subdomain), lines)
    if records and changed:
        changed.append(("records", records, []))
    call.form |= {name: "\n".join(each) for name, each in lines.items()}
    return await _render_nameservers(call, subdomain, etag=etag, changed=changed, note=checked.note)


async def _render_nameservers(call: PageCall, subdomain: SubdomainShape, **values: Any) -> Response:
    records, records_etag = await stored_records(call)
    return await call.render(
        "nameservers",
        name=subdomain,
        records=records,
        records_etag=records_etag,
        shown=form_mark(call.form),
        lines=delegation_lines(subdomain),
        presets=await find_presets(call, excluded_fqdn=subdomain.fqdn),
        **{"changed": None, "note": None, "title": _NOT_STORED} | values,
    )


async def show_renew(call: PageCall) -> Response:
    """Show the form that asks for the price of a renewal."""
    return await _show_quote(call, "renew")


async def renew(call: PageCall) -> Response:
    """Show the price of a renewal. With the confirmation, renew the name."""
    return await _renew_or_restore(call, "renew", "is renewed")


async def show_restore(call: PageCall) -> Response:
    """Show the form that takes the name out of the trash."""
    return await _show_quote(call, "restore")


async def restore(call: PageCall) -> Response:
    """Restore the name. If that renews it, show the price first."""
    return await _renew_or_restore(call, "restore", "is back from the trash")


async def _show_quote(call: PageCall, action: str) -> Response:
    quote = call.refusal.quote if call.refusal else None
    return await call.render("quote", name=await _find(call), action=action, quote=quote)


async def _renew_or_restore(call: PageCall, action: str, done: str) -> Response:
    """Renew or restore a name.

    Without a confirmation the API returns a quote, or acts if the price is zero.
    """
    subdomain = await _find(call)
    members = {"coupon_code": call.form.text("coupon_code"), **confirmation(call)}
    try:
        await call.api(action, members, fqdn=str(subdomain.id))
    except PaymentConfirmationRequired as refusal:
        return await call.render("quote", name=subdomain, action=action, quote=refusal.quote)
    return call.redirect(f"/names/{subdomain.fqdn}", f"{subdomain.fqdn} {done}.")


async def show_delete(call: PageCall) -> Response:
    """Show the form that asks to confirm the deletion."""
    if asked := sign_in_again(call):
        return asked
    name = await _find(call)
    if name.status == "trashed":
        return _already_in_trash(call, name)
    trash_days = await call.read("get_subdomain", _read_trash_days)
    return await call.render("delete", name=name, trash_days=trash_days)


async def delete(call: PageCall) -> Response:
    """Move the name to the trash. A form that is sent again changes nothing."""
    name = await _find(call)
    if name.status == "trashed":
        return _already_in_trash(call, name)
    trash_days = await call.read("get_subdomain", _read_trash_days)
    done = await call.api("delete", fqdn=name.fqdn)
    path = f"/names/{done.deleted.fqdn}" if trash_days else "/names"
    return call.redirect(path, f"{done.deleted.fqdn} is deleted.")


def _read_trash_days(tx: Tx, call: Call[None, None]) -> int:
    return find_in_account_or_trash(tx, call.actor(), call.path["fqdn"]).trash_days


def _already_in_trash(call: PageCall, name: SubdomainShape) -> Response:
    return call.redirect(f"/names/{name.fqdn}", f"{name.fqdn} is in the trash already.")


async def retry(call: PageCall) -> Response:
    """Try to publish the name now."""
    return await _run_action(call, "retry", None, "The publication was tried again.")


async def set_auto_renew(call: PageCall) -> Response:
    """Turn the automatic renewal on, with a ceiling, or off."""
    enabled = call.form.is_on("enabled")
    members = {"enabled": enabled, "max_credits": call.form.number("max_credits") if enabled else None}
    words = "on" if enabled else "off"
    return await _run_action(call, "set_auto_renew", members, f"Automatic renewal is {words}.")


async def set_automatic_ds(call: PageCall) -> Response:
    """Turn automatic DS on or off."""
    members = {"enabled": call.form.is_on("enabled"), "bootstrap": call.form.is_on("bootstrap")}
    return await _run_action(call, "set_automatic_ds", members, "The settings of automatic DS are stored.")


async def check_health(call: PageCall) -> Response:
    """Check the name's nameservers now."""
    return await _run_action(call, "check_health", None, "Your nameservers were checked just now.")


async def show_transfer(call: PageCall) -> Response:
    """Show the form that offers the name to another person."""
    if asked := sign_in_again(call):
        return asked
    return await call.render("transfer", name=await _find(call), holders=other_holders(call))


async def transfer(call: PageCall) -> Response:
    """Offer the name to another person, or move it to another organization of the user, or to the user."""
    fqdn = call.parameters["fqdn"]
    if "holder" in call.form:
        receiver = await acting_for_chosen_holder(call)
        try:
            await move(call, fqdn, receiver)
        except Refusal:
            # With the same key the next try would find the offer that `move` has withdrawn.
            call.form[KEY_FIELD] = new_key()
            raise
        return show_moved(call, receiver, fqdn)
    offer = (await call.api("push", {"to": call.form.text("to")}, fqdn=fqdn)).transfer
    sentence = f"{offer.subdomain} is offered to {offer.to}, who has seven days to accept."
    return call.redirect(f"/names/{offer.subdomain}", sentence)


async def withdraw(call: PageCall) -> Response:
    """Withdraw the offer of the name."""
    await call.api("withdraw", id=call.form.get("id", ""))
    return call.redirect(f"/names/{call.parameters['fqdn']}", "The offer is withdrawn.")


async def _run_action(call: PageCall, operation: str, members: dict[str, Any] | None, done: str) -> Response:
    fqdn = call.parameters["fqdn"]
    await call.api(operation, members, fqdn=fqdn)
    return call.redirect(f"/names/{fqdn}", done)


async def _find(call: PageCall) -> SubdomainShape:
    """Return the name of the path, live or in the trash.

    Raises:
        SubdomainNotFound: the user has no such name.
    """
    return await call.read("get_subdomain", _read_name)


def _read_name(tx: Tx, call: Call[None, None]) -> SubdomainShape:
    return shape_of(call, find_in_account_or_trash(tx, call.actor(), call.path["fqdn"]), tx.now)


def _etag(subdomain: SubdomainShape) -> str:
    """Return the entity tag of the shown name.

    The form sends it back, so that it can't undo a later change by another client.
    """
    return entity_tag(SubdomainAnswer(subdomain=subdomain))
