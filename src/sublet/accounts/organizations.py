"""Find organizations as an operator names them, add organizations with the accounts that hold their names
(docs/decisions/0018-holders.md), and add and remove members.
"""

import re
import secrets
import string
import unicodedata
from collections.abc import Collection, Iterator
from itertools import count

from sublet import audit
from sublet.accounts import membership_store, store
from sublet.accounts.fields import check_text
from sublet.accounts.model import MEMBER, OWNER, Membership, Organization, User
from sublet.accounts.tokens.issue import revoke
from sublet.audit import Actor
from sublet.db import Outdated, Tx
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


def refuse_deleted_organization(tx: Tx, organization: Organization) -> None:
    """Raise `NotFound` if an organization is deleted: by its owner, or with its last member.

    Reads the organization again, because the caller may have waited for a lock after reading it.
    """
    stored = store.find_organization(tx, organization.id)
    is_erased = stored is not None and stored.slug == erased_slug(stored.id)
    if is_erased and not membership_store.count_members(tx, organization.id):
        raise NotFound(f"The organization {organization.id} is deleted. See `sublet organization list`.")


def erased_slug(organization_id: int) -> str:
    """Return the slug that an organization gets when its name is erased."""
    return f"deleted-{organization_id}"


def find_or_add_organization(tx: Tx, actor: Actor, name: str) -> Organization:
    """Return the organization with this name, slug or id, or add one with this name.

    Raises:
        Conflict: several organizations match.
        NotFound: the organization is deleted.
        ValidationFailed: no organization matches, and the text is not a valid name.
    """
    found = _candidates(tx, name)
    if not found:
        return add_organization(tx, actor, name)
    organization = _only(found, name)
    refuse_deleted_organization(tx, organization)
    return organization


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


def account_email(organization_id: int) -> str:
    """Return the text that an organization's account has in place of an e-mail address, such as
    `organization:12`.
    """
    return f"organization:{organization_id}"


def add_account(tx: Tx, actor: Actor, organization: Organization) -> None:
    """Add the account of a new organization. The limits of new users apply to the account."""
    email = account_email(organization.id)
    account_id = membership_store.insert_account(tx, organization, email)
    after = {"email": email, "name": organization.name, "organization_id": organization.id}
    audit.record(tx, actor, "user.add", account_id, after=after)


def refuse_shared(tx: Tx, organization: Organization) -> None:
    """Raise `Conflict` if an organization has an account.

    Such an organization can't be a user's own organization.
    """
    if membership_store.find_account(tx, organization.id) is not None:
        raise Conflict(
            f"{organization.name} has names of its own, so it can't be a user's own organization. Add the "
            "user without an organization, then give the user a role with `sublet organization set-role "
            f"{organization.id}`."
        )


def lock_organization(tx: Tx, organization: Organization, user_ids: Collection[int]) -> None:
    """Lock these users, the account of an organization if it has one, and the organization.

    Changes of an organization's members run one after the other. Read what depends on the members after this
    call.
    """
    account = membership_store.find_account(tx, organization.id)
    store.lock_users(tx, {*user_ids, *([account.id] if account is not None else [])})
    store.lock_organizations(tx, [organization.id])


def lock_members(tx: Tx, organization: Organization, user_ids: Collection[int]) -> None:
    """Lock an organization like `lock_organization`, for a request that changes its members.

    Raises:
        Conflict: the organization has no account, because it is a user's own organization.
    """
    if membership_store.find_account(tx, organization.id) is None:
        raise Conflict(
            f"{organization.name} is a user's own organization, which can't hold names. Create an "
            "organization that can."
        )
    lock_organization(tx, organization, user_ids)


def lock_with_organizations(tx: Tx, user_id: int) -> None:
    """Lock a user, the accounts of the user's organizations, and the organizations: everything that a
    deletion of the user may change.

    Raises:
        Outdated: the user joined or left an organization while this transaction waited.
    """
    seen = [each.organization.id for each in membership_store.list_memberships(tx, user_id)]
    store.lock_users(tx, {user_id, *membership_store.list_account_ids(tx, seen)})
    store.lock_organizations(tx, seen)
    if seen != [each.organization.id for each in membership_store.list_memberships(tx, user_id)]:
        raise Outdated


def join(tx: Tx, actor: Actor, user_id: int, organization: Organization, role: str) -> bool:
    """Make a user a member. Return False, and keep the role, if the user is a member already."""
    if not membership_store.insert_membership(tx, user_id, organization.id, role):
        return False
    after = {"user_id": user_id, "role": role}
    audit.record(tx, actor, "organization.join", organization.id, after=after)
    return True


def join_own(tx: Tx, actor: Actor, user_id: int, organization: Organization) -> None:
    """Make a user a member of the user's own organization: as owner if the organization has no owner, else as
    a member.

    Lock the organization first (`lock_organization`), unless this transaction added it.
    """
    role = MEMBER if membership_store.list_owners(tx, organization.id) else OWNER
    join(tx, actor, user_id, organization, role)


def leave(tx: Tx, actor: Actor, membership: Membership) -> None:
    """End a membership, and revoke the user's tokens for the organization.

    Not checked: that the organization keeps an owner.
    """
    user, organization = membership.user, membership.organization
    membership_store.delete_membership(tx, user.id, organization.id)
    before = {"user_id": user.id, "role": membership.role}
    audit.record(tx, actor, "organization.leave", organization.id, before=before)
    for token in membership_store.list_valid_tokens(tx, user.id, organization.id):
        revoke(tx, actor, token)


def remove_member_if_any(tx: Tx, actor: Actor, user_id: int, organization_id: int) -> User | None:
    """End a membership, if the user has one.

    If the last owner leaves, `find_next_owner` chooses the next owner, who is returned.

    Lock the organization first (`lock_organization`, `lock_with_organizations`).
    """
    membership = membership_store.find_membership(tx, user_id, organization_id)
    if membership is None:
        return None
    leave(tx, actor, membership)
    next_owner = membership_store.find_next_owner(tx, organization_id)
    if next_owner is None or membership_store.list_owners(tx, organization_id):
        return None
    change_role(tx, actor, next_owner.id, organization_id, OWNER)
    return next_owner


def change_role(tx: Tx, actor: Actor, user_id: int, organization_id: int, role: str) -> None:
    """Store a member's new role.

    Not checked: that the role differs, and that the organization keeps an owner.
    """
    before = {"user_id": user_id, "role": store.find_role(tx, user_id, organization_id)}
    membership_store.update_role(tx, user_id, organization_id, role)
    after = {"user_id": user_id, "role": role}
    audit.record(tx, actor, "organization.set_role", organization_id, before=before, after=after)
