"""The page of a name's records: forms by purpose, a table, and a zone file.

What a form removes is shown before it is stored.
"""

from collections.abc import Sequence
from functools import partial
from typing import Any

from msgspec import Struct
from starlette.responses import Response

from sublet.db import Tx
from sublet.dns.records import owner_of
from sublet.dns.types import RecordSet, RecordSetInput
from sublet.errors import Refusal, SubdomainNotFound
from sublet.operations.call import Call
from sublet.operations.conditional import entity_tag
from sublet.platform_domains.model import PlatformDomain
from sublet.platform_domains.store import find_platform_domain
from sublet.subdomains.api import SubdomainAnswer, shape_of
from sublet.subdomains.find import find_in_account
from sublet.subdomains.lifecycle import is_allowed
from sublet.subdomains.records.api import show_records
from sublet.subdomains.records.zone_file import format_zone_file
from sublet.subdomains.shapes import ProvisioningShape
from sublet.web.form import Form
from sublet.web.page import PageCall
from sublet.web.records_form import RecordsForm, check_records_form

RECORDS_OPERATIONS = (
    *("get_records", "change_records", "set_record", "remove_record", "replace_records"),
    "update_nameservers",
)
_NOT_STORED = "The records are not stored"
_ONLY_REMOVED = "The nameservers are removed, but the records are not stored. Correct the form, and try again"
_AT_YOUR_HOST = "Now enter {} as the custom domain at your web host."


class RecordsView(Struct, frozen=True, kw_only=True):
    """What the page shows of a name. `types` are the types of records that the platform domain accepts."""

    fqdn: str
    records: tuple[RecordSet, ...]
    nameservers: tuple[str, ...]
    types: tuple[str, ...]
    may_change: bool
    provisioning: ProvisioningShape
    etag: str
    name_etag: str
    """The entity tag of the name, which changes with its nameservers."""


class _Plan(Struct, frozen=True, kw_only=True):
    """What a form changes: lines of records, and the nameservers that the records replace."""

    view: RecordsView
    form: RecordsForm
    removed: list[str]
    added: list[str]

    @property
    def needs_confirmation(self) -> bool:
        """True if the change removes something, or is large."""
        return bool(self.removed or self.view.nameservers or self.form.replaces_all)


async def show(call: PageCall) -> Response:
    """Show the forms for the records of a name, and its records."""
    return await _render(call, await call.read("get_records", records_view))


async def change(call: PageCall) -> Response:
    """Store what a form adds.

    Show a change that removes something first, and store it with the confirmation.
    """
    plan = await call.read("get_records", partial(_read_plan, form=call.form))
    view = plan.view
    has_failed = view.provisioning.status == "failed"
    if not (plan.removed or plan.added or has_failed):
        return await _render(call, view, is_unchanged=True)
    etag = call.form.get("etag") or view.etag
    if plan.needs_confirmation and not call.form.is_on("confirm"):
        return await call.render("records_change", plan=plan, etag=etag)
    if view.nameservers:
        none: dict[str, Any] = {"nameservers": [], "glue": [], "ds_records": []}
        shown_tag = call.form.get("name_etag", "")
        await call.api("update_nameservers", none, fqdn=view.fqdn, if_match=shown_tag)
        try:
            done = await _store(call, plan.form, view.fqdn, etag)
        except Refusal as refusal:
            call.refusal = refusal
            return await _render(call, await call.read("get_records", records_view), title=_ONLY_REMOVED)
    else:
        done = await _store(call, plan.form, view.fqdn, etag)
    is_published = done.provisioning.status in ("published", "none")
    sentences = ["Stored, and in the DNS now." if is_published else "Stored. It is in the DNS in a moment."]
    if call.form.get("purpose") in ("host", "github"):
        sentences.append(_AT_YOUR_HOST.format(owner_of(plan.form.entries[0].name, view.fqdn)))
    return call.redirect(f"/names/{view.fqdn}/records", " ".join(sentences))


async def _store(call: PageCall, form: RecordsForm, fqdn: str, etag: str) -> Any:
    """Call the operation that fits the entries: for one RRset, for several, or for all."""
    entries = [_members(each) for each in form.entries]
    if form.replaces_all:
        return await call.api("replace_records", {"records": entries}, fqdn=fqdn, if_match=etag)
    if len(entries) > 1:
        return await call.api("change_records", {"records": entries}, fqdn=fqdn, if_match=etag)
    place = {"fqdn": fqdn, "name": entries[0].pop("name"), "type": entries[0].pop("type")}
    if not entries[0]["values"]:
        return await call.api("remove_record", **place, if_match=etag)
    return await call.api("set_record", entries[0], **place, if_match=etag)


def _members(entry: RecordSetInput) -> dict[str, Any]:
    ttl = {} if entry.ttl_seconds is None else {"ttl": entry.ttl_seconds}
    return {"name": entry.name, "type": entry.type, "values": list(entry.values), **ttl}


def record_lines(records: Sequence[RecordSet]) -> list[str]:
    """Return a line for each record, as a zone file has it."""
    return [
        f"{each.name} {each.ttl_seconds} {each.type} {value}" for each in records for value in each.values
    ]


async def stored_records(call: PageCall) -> tuple[list[str], str]:
    """Return the lines of a name's records, and their entity tag. A name in the trash has no lines."""
    try:
        view = await call.read("get_records", records_view)
    except SubdomainNotFound:
        return [], ""
    return record_lines(view.records), view.etag


def records_view(tx: Tx, call: Call[None, None]) -> RecordsView:
    """Return what the page shows of the name in its path. Raises `SubdomainNotFound`."""
    return _view(tx, call)[0]


def _view(tx: Tx, call: Call[None, None]) -> tuple[RecordsView, PlatformDomain]:
    subdomain = find_in_account(tx, call.actor(), call.path["fqdn"])
    platform_domain = find_platform_domain(tx, subdomain.platform_domain_id)
    assert platform_domain is not None  # noqa: S101 - the foreign key ensures it
    answer = show_records(tx, call)
    view = RecordsView(
        fqdn=subdomain.fqdn,
        records=subdomain.records,
        nameservers=subdomain.delegation.nameservers,
        types=platform_domain.record_types if platform_domain.accepts_records else (),
        may_change="records:write" in call.registrant.restrictions.scopes
        and is_allowed(subdomain, "update_nameservers", tx.now),
        provisioning=answer.provisioning,
        etag=entity_tag(answer),
        name_etag=entity_tag(SubdomainAnswer(subdomain=shape_of(call, subdomain, tx.now))),
    )
    return view, platform_domain


def _read_plan(tx: Tx, call: Call[None, None], *, form: Form) -> _Plan:
    """Compare the records of a form with the stored ones.

    Raises:
        SubdomainNotFound: the user has no such live name.
        ValidationFailed: as raised by `check_records_form`.
    """
    view, platform_domain = _view(tx, call)
    found, wanted = check_records_form(form, view.fqdn, view.records, platform_domain)
    before, after = record_lines(view.records), record_lines(wanted)
    return _Plan(
        view=view,
        form=found,
        removed=[each for each in before if each not in after],
        added=[each for each in after if each not in before],
    )


async def _render(
    call: PageCall, view: RecordsView, *, title: str = _NOT_STORED, is_unchanged: bool = False
) -> Response:
    return await call.render(
        "records",
        view=view,
        title=title,
        is_unchanged=is_unchanged,
        zone_file=format_zone_file(view.fqdn, view.records) if view.records else "",
    )
