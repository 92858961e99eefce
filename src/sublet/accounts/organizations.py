"""Find organizations by name, slug or id, as an operator names them, and add organizations."""

import re
import secrets
import string
import unicodedata
from collections.abc import Iterator
from itertools import count

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
SUFFIX_LENGTH = 6
_SUFFIX_LETTERS = string.ascii_lowercase + string.digits


def slug_of(name: str) -> str:
    """Return the slug of a name: ASCII letters and digits in lower case, separated by
    hyphens; never empty.
    """
    plain = unicodedata.normalize("NFKD", name).encode("ascii", "ignore").decode().lower()
    slug = re.sub(r"[^a-z0-9]+", "-", plain).strip("-")
    return slug[:SLUG_LENGTH_MAX].strip("-") or "organization"


def find_organization(tx: Tx, identifier: str) -> Organization:
    """Return the organization with this id, name (in any case) or slug.

    The organization with the id wins, so that users can't take its id away by naming theirs like it.

    Raises:
        NotFound: no organization matches.
        Conflict: several organizations match; the message gives their ids.
    """
    found = _candidates(tx, identifier)
    if not found:
        raise NotFound(f"There is no organization `{shown(identifier)}`. See `sublet organization list`.")
    return _only(found, identifier)


def find_or_add_organization(tx: Tx, actor: Actor, name: str) -> Organization:
    """Return the organization with this name, slug or id, or add one with this name.

    Raises:
        Conflict: several organizations match.
        ValidationFailed: no organization matches, and the text is not a valid name.
    """
    found = _candidates(tx, name)
    return _only(found, name) if found else add_organization(tx, actor, name)


def add_organization(
    tx: Tx, actor: Actor, name: str, *, created_by_user_id: int | None = None
) -> Organization:
    """Add an organization, even if another organization has the same name.

    Its slug gets a number if the plain slug is taken.

    The slug of an organization that a user creates always ends with random characters. A user's own
    organization is named after the address, so a number would tell whether an address has an account.

    Raises:
        ValidationFailed: the name is invalid.
    """
    name, errors = check_text("organization" if created_by_user_id is None else "name", name)
    if errors:
        raise validation_failed(errors)
    # The database answers whether a slug is free, because another transaction may take it at the same time.
    plain = slug_of(name)
    slugs = _slugs(plain) if created_by_user_id is None else _random_slugs(plain)
    added = (store.insert_organization(tx, name, slug, created_by_user_id) for slug in slugs)
    organization = next(each for each in added if each is not None)
    after = {"name": organization.name, "slug": organization.slug}
    audit.record(tx, actor, "organization.add", organization.id, after=after)
    return organization


def _candidates(tx: Tx, identifier: str) -> list[Organization]:
    text = identifier.strip()
    organization_id = parse_id(text)
    by_id = store.find_organization(tx, organization_id) if organization_id is not None else None
    return [by_id] if by_id is not None else store.find_organizations_by_name(tx, text)


def _only(found: list[Organization], identifier: str) -> Organization:
    if len(found) > 1:
        choices = "; ".join(f"id {each.id}: {shown(each.name)} (slug {each.slug})" for each in found[:5])
        raise Conflict(
            f"`{shown(identifier)}` matches {len(found)} organizations. Give the id or slug of one: "
            f"{choices}."
        )
    return found[0]


def _random_slugs(slug: str) -> Iterator[str]:
    """Yield a slug with different random characters at its end, without end."""
    while True:
        suffix = "".join(secrets.choice(_SUFFIX_LETTERS) for _ in range(SUFFIX_LENGTH))
        yield f"{slug[: SLUG_LENGTH_MAX - SUFFIX_LENGTH - 1]}-{suffix}"


def _slugs(slug: str) -> Iterator[str]:
    """Yield a slug, then the slug with 2, 3 … at its end."""
    yield slug
    for number in count(2):
        suffix = f"-{number}"
        yield slug[: SLUG_LENGTH_MAX - len(suffix)] + suffix
