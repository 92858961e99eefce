"""The fields of a delegation: nameservers, glue and DS records as lines of text, and what a change of them makes different."""

from typing import Any

from sublet.http.shapes import SubdomainShape
from sublet.web.form import Form

FIELDS = ("nameservers", "glue", "ds_records")


def delegation_members(form: Form) -> dict[str, Any]:
    """Return the delegation that a form has, as members of the API.

    A line of glue is a host and its addresses. What is no address goes to the API as one, which says what is wrong with it.
    """
    return {
        "nameservers": form.lines("nameservers"),
        "glue": [_glue(line.split()) for line in form.lines("glue")],
        "ds_records": form.lines("ds_records"),
    }


def _glue(words: list[str]) -> dict[str, str]:
    host, *addresses = words
    ipv6 = " ".join(each for each in addresses if ":" in each)
    ipv4 = " ".join(each for each in addresses if ":" not in each)
    return {"host": host} | ({"ipv4": ipv4} if ipv4 else {}) | ({"ipv6": ipv6} if ipv6 else {})


def delegation_lines(subdomain: SubdomainShape) -> dict[str, list[str]]:
    """Return the stored delegation of a name as the lines of the form."""
    return {
        "nameservers": list(subdomain.nameservers),
        "glue": [" ".join(filter(None, (each.host, each.ipv4, each.ipv6))) for each in subdomain.glue],
        "ds_records": [
            f"{each.key_tag} {each.algorithm} {each.digest_type} {each.digest}"
            for each in subdomain.ds_records
        ],
    }


def difference(before: dict[str, list[str]], form: Form) -> list[tuple[str, list[str], list[str]]]:
    """Return what a form changes: for each field with a difference its name, the lines that go, and those that come."""
    found = []
    for name in FIELDS:
        after = [" ".join(line.split()) for line in form.lines(name)]
        if before[name] != after:
            gone = [each for each in before[name] if each not in after]
            come = [each for each in after if each not in before[name]]
            found.append((name, gone, come))
    return found
