"""Parse the form fields of a delegation, compare them with the stored delegation, and check them."""

from dataclasses import dataclass
from typing import Any

from starlette.responses import JSONResponse, Response

from sublet.dns.ds import InvalidDs, parse_ds
from sublet.dns.types import DsRecord
from sublet.errors import Conflict, Refusal
from sublet.health.api import FindingShape
from sublet.subdomains.shapes import DsShape, SubdomainShape
from sublet.web.filters import sentence
from sublet.web.form import Form
from sublet.web.page import PageCall
from sublet.web.pasted import parse_pasted_ds, parse_pasted_glue, parse_pasted_nameservers

FIELDS = ("nameservers", "glue", "ds_records")
_TITLES = {
    "healthy": ("good", "These nameservers answer for {}."),
    "degraded": ("warn", "These nameservers answer for {}, but not all is well."),
    "broken": ("bad", "These nameservers don't work for {} yet."),
    "unknown": ("warn", "These nameservers could not be asked."),
}


@dataclass(frozen=True, slots=True)
class CheckNote:
    """The note on the page with the result of a check. `kind` is its style: good, warn or bad."""

    kind: str
    title: str
    findings: tuple[FindingShape, ...] = ()
    warnings: tuple[str, ...] = ()

    @property
    def lines(self) -> list[str]:
        """The sentences below the title."""
        return [*(f"{each.message} {each.hint}" for each in self.findings), *self.warnings]


_WELL_FORMED = "These entries are well-formed. This registry doesn't ask the nameservers."
_NO_NAMESERVERS = CheckNote("warn", "Without nameservers the name isn't in the DNS.")


def delegation_members(form: Form) -> dict[str, Any]:
    """Return the delegation in a form as members of the API."""
    return {
        "nameservers": parse_pasted_nameservers(form.get("nameservers", "")),
        "glue": parse_pasted_glue(form.get("glue", "")),
        "ds_records": parse_pasted_ds(form.get("ds_records", "")),
    }


async def check_delegation(call: PageCall, fqdn: str) -> CheckNote:
    """Check the delegation of a form before it is stored.

    Raises:
        Refusal: an entry is malformed, or too many checks are running.
    """
    members = delegation_members(call.form)
    if not any(members.values()):
        return _NO_NAMESERVERS
    try:
        check = (await call.api("check_delegation", {"fqdn": fqdn, **members})).check
    except Conflict as refusal:
        # The API validates the entries before it says that this registry makes no checks.
        warnings = tuple(refusal.details.get("warnings", ()))
        return CheckNote("warn" if warnings else "good", _WELL_FORMED, warnings=warnings)
    kind, title = _TITLES[check.state]
    return CheckNote(kind, title.format(check.fqdn), tuple(check.findings))


async def check_pasted(call: PageCall) -> Response:
    """Return the errors of each field and the note of the check as JSON, for `delegation.js`."""
    found: dict[str, Any] = {"errors": {name: [] for name in FIELDS}, "note": None}
    try:
        note = await check_delegation(call, call.form.get("fqdn", ""))
    except Refusal as refusal:
        for each in refusal.errors:
            name = each.field.partition("[")[0]
            if name in FIELDS:
                found["errors"][name].append(sentence(each.message.replace("`", "")))
        return JSONResponse(found)
    found["note"] = {"kind": note.kind, "title": note.title, "lines": note.lines}
    return JSONResponse(found)


def delegation_lines(subdomain: SubdomainShape) -> dict[str, list[str]]:
    """Return the stored delegation of a name as the lines of the form."""
    return {
        "nameservers": list(subdomain.nameservers),
        "glue": [" ".join(filter(None, (each.host, each.ipv4, each.ipv6))) for each in subdomain.glue],
        "ds_records": [_ds_line(each) for each in subdomain.ds_records],
    }


def _ds_line(record: DsShape | DsRecord) -> str:
    return f"{record.key_tag} {record.algorithm} {record.digest_type} {record.digest}"


def _stored_ds(fqdn: str, text: str) -> str:
    """Return a DS record, or the DS record of a DNSKEY, in its stored form. Return malformed text unchanged."""
    try:
        return _ds_line(parse_ds(fqdn, text))
    except InvalidDs:
        return text


def changed_fields(
    fqdn: str, before: dict[str, list[str]], form: Form
) -> list[tuple[str, list[str], list[str]]]:
    """Return the fields that a form changes, each with its removed and its added lines, in their stored form."""
    members = delegation_members(form)
    stored = {
        "nameservers": [each.lower() for each in members["nameservers"]],
        "glue": [" ".join(each.values()).lower() for each in members["glue"]],
        "ds_records": [_stored_ds(fqdn, each) for each in members["ds_records"]],
    }
    found = []
    for name in FIELDS:
        after = list(dict.fromkeys(stored[name]))
        if before[name] != after:
            removed = [each for each in before[name] if each not in after]
            added = [each for each in after if each not in before[name]]
            found.append((name, removed, added))
    return found
