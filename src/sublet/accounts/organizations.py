"""Organizations as the operator names them: by name, slug or id."""

import re
import unicodedata

from sublet import audit
from sublet.accounts import store
from sublet.accounts.fields import check_text
from sublet.accounts.model import Organization
from sublet.audit import Actor
from sublet.db import Tx
from sublet.dns.names import shown
from sublet.errors import Conflict, NotFound, validation_failed
from sublet.ids import parse_id

SLUG_LENGTH_MAX = 64


def slug_of(name: str) -> str:
    """Return the slug that a name gives: ASCII letters and digits in lower case, hyphens between; never empty."""
    plain = unicodedata.normalize("NFKD", name).encode("ascii", "ignore").decode().lower()
    slug = re.sub(r"[^a-z0-9]+", "-", plain).strip("-")
    return slug[:SLUG_LENGTH_MAX].strip("-") or "organization"


def find_organization(tx: Tx, identifier: str) -> Organization:
    """Return the organization that a name (any case), slug or id means.

    Raises:
        NotFound: none.
        Conflict: several; the message gives their ids.
    """
    found = _candidates(tx, identifier)
    if not found:
        raise NotFound(f"There is no organization `{shown(identifier)}`. See `sublet user list`.")
    return _only(found, identifier)


def find_or_add_organization(tx: Tx, actor: Actor, name: str) -> Organization:
    """Return the organization that a name, slug or id means, or a new one of this name.

    Raises:
        Conflict: several are meant.
        ValidationFailed: none is, and the text is no good name.
    """
    found = _candidates(tx, name)
    return _only(found, name) if found else add_organization(tx, actor, name)


def add_organization(tx: Tx, actor: Actor, name: str) -> Organization:
    """Add an organization of this name, whatever others are called; its slug gets a number where it is taken.

    Raises:
        ValidationFailed: no good name.
    """
    name, errors = check_text("organization", name)
    if errors:
        raise validation_failed(errors)
    organization = store.insert_organization(tx, name, _free_slug(tx, slug_of(name)))
    audit.record(
        tx,
        actor,
        "organization.add",
        "organization",
        organization.id,
        after={"name": organization.name, "slug": organization.slug},
    )
    return organization


def _candidates(tx: Tx, identifier: str) -> list[Organization]:
    text = identifier.strip()
    found = {each.id: each for each in store.find_organizations_by_name(tx, text)}
    organization_id = parse_id(text)
    by_id = store.find_organization(tx, organization_id) if organization_id is not None else None
    if by_id is not None:
        found[by_id.id] = by_id
    return list(found.values())


def _only(found: list[Organization], identifier: str) -> Organization:
    if len(found) > 1:
        choices = "; ".join(f"id {each.id}: {shown(each.name)} (slug {each.slug})" for each in found[:5])
        raise Conflict(
            f"`{shown(identifier)}` means {len(found)} organizations; name one by its id or slug: {choices}."
        )
    return found[0]


def _free_slug(tx: Tx, slug: str) -> str:
    number, candidate = 1, slug
    while store.is_slug_taken(tx, candidate):
        number += 1
        suffix = f"-{number}"
        candidate = slug[: SLUG_LENGTH_MAX - len(suffix)] + suffix
    return candidate
