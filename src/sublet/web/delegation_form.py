"""Compare the form of a delegation with the stored one, check it, and fill it in from presets.

`pasted.py` parses the fields.
"""

from collections.abc import Sequence
from functools import partial
from hashlib import sha256
from typing import Any

from msgspec import Struct
from starlette.responses import JSONResponse, Response

from sublet.db import Tx
from sublet.dns.delegation import delegation_warnings
from sublet.dns.names import shown
from sublet.dns.types import Delegation, GlueEntry
from sublet.errors import RateLimited, Refusal, Unavailable
from sublet.health.api import FindingShape
from sublet.health.model import Finding, Target
from sublet.health.plan_delegation import plan_delegation
from sublet.health.signature_findings import parent_findings
from sublet.operations.call import Call
from sublet.structs import replace
from sublet.subdomains.model import Register
from sublet.subdomains.shapes import SubdomainShape
from sublet.web.filters import plural, sentence
from sublet.web.form import Form
from sublet.web.page import PageCall
from sublet.web.pasted import PastedDelegation, parse_pasted_delegation

FIELDS = ("nameservers", "glue", "ds_records")
IGNORED_MAX = 5
"""The maximum number of ignored lines that a page names."""
PRESET_NAMES_MAX = 50
"""The maximum number of names whose nameservers are considered. The newest names are."""
OWN_PRESETS_MAX = 8
_TITLES = {
    "healthy": ("good", "These nameservers answer for {}."),
    "degraded": ("warn", "These nameservers answer for {}, but not all is well."),
    "broken": ("bad", "These nameservers don't work for {} yet."),
    "unknown": ("warn", "These nameservers could not be asked."),
}


class CheckNote(Struct, frozen=True):
    """The note on the page with the result of a check. `kind` is its style: good, warn or bad.

    `taken` are the sentences of `told_of_taken`.
    """

    kind: str
    title: str
    findings: tuple[Finding | FindingShape, ...] = ()
    warnings: tuple[str, ...] = ()
    taken: tuple[str, ...] = ()

    @property
    def lines(self) -> list[str]:
        """The sentences below the title."""
        return [*(f"{each.message} {each.hint}" for each in self.findings), *self.taken, *self.warnings]


_WELL_FORMED = "These entries are well-formed. This registry doesn't ask the nameservers."
_NOT_ASKED = "These entries are well-formed. The nameservers are not asked now."
_NO_NAMESERVERS = CheckNote("warn", "Without nameservers and records the name isn't in the DNS.")


def read_delegation_form(form: Form, fqdn: str) -> PastedDelegation:
    """Return what a form has pasted for a name."""
    nameservers, glue, ds_records = (form.get(each, "") for each in FIELDS)
    return parse_pasted_delegation(nameservers, glue, ds_records, fqdn.lower().removesuffix("."))


def form_mark(form: Form) -> str:
    """Return a digest of the texts in the fields. A confirmation sends that of the texts which the page has
    shown.
    """
    return sha256(repr([form.get(each, "").split() for each in FIELDS]).encode()).hexdigest()


def delegation_members(pasted: PastedDelegation) -> dict[str, Any]:
    """Return what was pasted as members of the API."""
    return {
        "nameservers": list(pasted.nameservers),
        "glue": list(pasted.glue),
        "ds_records": list(pasted.ds_records),
    }


def told_of_taken(pasted: PastedDelegation) -> tuple[str, ...]:
    """Return sentences for the user with the values that are taken from a text, if it has more than them."""
    hosts = ", ".join(pasted.nameservers)
    taken = [f"The nameservers are {hosts}."] if hosts and (pasted.ignored or not pasted.is_list) else []
    if pasted.ds_records and not pasted.is_list:
        taken.append(f"The DS records are {', '.join(pasted.ds_records)}.")
    return tuple(taken)


def told_of_ignored(lines: Sequence[str]) -> tuple[str, ...]:
    """Return what to tell the user about the lines from which nothing is taken."""
    if not lines:
        return ()
    named = ", ".join(f"`{shown(' '.join(each.split()))}`" for each in lines[:IGNORED_MAX])
    others = len(lines) - IGNORED_MAX
    more = f", and {plural(others, 'other line')}" if others > 0 else ""
    return (f"Not used: {named}{more}.",)


class CheckedForm(Struct, frozen=True):
    """A well-formed delegation of a form in canonical form, and the result of its check."""

    delegation: Delegation
    note: CheckNote


async def check_delegation(call: PageCall, fqdn: str) -> CheckedForm:
    """Check the delegation of a form before it is stored.

    Only queries to its nameservers are limited, not the check of its entries.

    Raises:
        Refusal: an entry is malformed, or any refusal of `plan_delegation` or of `list_subdomains`.
    """
    pasted = read_delegation_form(call.form, fqdn)
    planned = Register(
        fqdn=fqdn,
        nameservers=pasted.nameservers,
        glue=tuple(GlueEntry(each["host"], each.get("ipv4"), each.get("ipv6")) for each in pasted.glue),
        ds_records=pasted.ds_records,
    )
    target = await call.read("list_subdomains", partial(_read_target, planned=planned))
    note = await _ask_nameservers(call, fqdn, pasted, target)
    warnings = (*note.warnings, *told_of_ignored(pasted.ignored))
    return CheckedForm(target.delegation, replace(note, taken=told_of_taken(pasted), warnings=warnings))


async def _ask_nameservers(call: PageCall, fqdn: str, pasted: PastedDelegation, target: Target) -> CheckNote:
    """Return the result of the queries to the nameservers of a well-formed delegation."""
    if not target.delegation.nameservers:
        return _NO_NAMESERVERS
    if call.shared.calls.context.checker is None:
        findings = tuple(parent_findings(target))
        warnings = delegation_warnings(target.delegation)
        return CheckNote("warn" if findings or warnings else "good", _WELL_FORMED, findings, warnings)
    try:
        check = (await call.api("check_delegation", {"fqdn": fqdn, **delegation_members(pasted)})).check
    except (RateLimited, Unavailable) as refusal:
        return CheckNote("warn", _NOT_ASKED, warnings=(refusal.message,))
    kind, title = _TITLES[check.state]
    return CheckNote(kind, title.format(check.fqdn), tuple(check.findings))


def _read_target(tx: Tx, call: Call[None, None], *, planned: Register) -> Target:
    return plan_delegation(tx, call.actor(), call.registrant.holder, planned).target


async def check_pasted(call: PageCall) -> Response:
    """Return the errors of each field and the note of the check as JSON, for `delegation.js`."""
    found: dict[str, Any] = {"errors": {name: [] for name in FIELDS}, "note": None}
    try:
        note = (await check_delegation(call, call.form.get("fqdn", ""))).note
    except Refusal as refusal:
        for each in refusal.errors:
            name = each.field.partition("[")[0]
            if name in FIELDS:
                found["errors"][name].append(sentence(each.message.replace("`", "")))
        if not refusal.errors:
            found["note"] = {"kind": "bad", "title": refusal.message, "lines": []}
        return JSONResponse(found)
    lines = [each.replace("`", "") for each in note.lines]
    found["note"] = {"kind": note.kind, "title": note.title, "lines": lines}
    return JSONResponse(found)


def delegation_lines(delegation: SubdomainShape | Delegation) -> dict[str, list[str]]:
    """Return a delegation in canonical form as the lines of the form."""
    return {
        "nameservers": list(delegation.nameservers),
        "glue": [" ".join(filter(None, (each.host, each.ipv4, each.ipv6))) for each in delegation.glue],
        "ds_records": [
            f"{each.key_tag} {each.algorithm} {each.digest_type} {each.digest}"
            for each in delegation.ds_records
        ],
    }


def changed_fields(
    before: dict[str, list[str]], after: dict[str, list[str]]
) -> list[tuple[str, list[str], list[str]]]:
    """Return the fields that a form changes, each with its removed and its added lines."""
    found = []
    for name in FIELDS:
        if before[name] != after[name]:
            removed = [each for each in before[name] if each not in after[name]]
            added = [each for each in after[name] if each not in before[name]]
            found.append((name, removed, added))
    return found


async def find_presets(call: PageCall, excluded_fqdn: str = "") -> list[tuple[str, str]]:
    """Return the choices: the nameservers, separated by spaces, and the text to show."""
    found = {
        " ".join(hosts): f"{provider}: {', '.join(hosts)}"
        for provider, hosts in call.shared.nameserver_presets
    }
    presets_max = len(found) + OWN_PRESETS_MAX
    names = await call.api("list_subdomains", query={"limit": PRESET_NAMES_MAX})
    for each in names.subdomains:
        if each.nameservers and each.fqdn != excluded_fqdn and len(found) < presets_max:
            found.setdefault(" ".join(each.nameservers), f"{each.fqdn}: {', '.join(each.nameservers)}")
    return list(found.items())


def apply_preset(form: Form) -> None:
    """Put the nameservers of the chosen preset into their field."""
    if form.text("preset"):
        form["nameservers"] = "\n".join(form["preset"].split())
