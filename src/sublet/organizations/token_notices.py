"""Mail about new and widened tokens: to the user, and to the owners of the organization that the token is for."""

from sublet.accounts.model import Token, User
from sublet.accounts.roles import OWNER
from sublet.accounts.store import find_organization, find_role
from sublet.db import Tx
from sublet.organizations.notices import notify_owners
from sublet.sign_in.notices import notify


def notify_of_token(tx: Tx, user: User, token: Token, what: str, public_url: str) -> None:
    """Mail what happened to a token of this user, such as `was created`. The mail doesn't have the token's name, because its creator chose it."""
    scopes = ", ".join(token.scopes)
    until = (
        f"until {token.expires_at:%Y-%m-%d %H:%M} UTC" if token.expires_at is not None else "without an end"
    )
    sentence = f"The token {token.id} {what}. It is valid {until}, and may use: {scopes}."
    page = f"/tokens/{token.id}"
    if token.organization_id is None:
        notify(tx, user, "token", token.id, f"{sentence} It acts for your account.", public_url, page=page)
        return
    organization = find_organization(tx, token.organization_id)
    assert organization is not None  # noqa: S101 - organizations are never deleted
    others = [] if find_role(tx, user.id, organization.id) == OWNER else [user]
    notify_owners(
        tx,
        organization,
        f"{sentence} It belongs to {user.email} and acts for the organization.",
        *others,
        about=[user],
    )
