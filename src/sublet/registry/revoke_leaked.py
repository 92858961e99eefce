"""Revoke the tokens whose secrets appear in a leak report (`sublet token revoke-leaked`)."""

from collections.abc import Collection

from msgspec import Struct

from sublet.accounts import store
from sublet.accounts.model import Token, User
from sublet.accounts.tokens.issue import digest, find_secrets, revoke
from sublet.audit import Actor, EventFilter, search_events
from sublet.db import Tx
from sublet.mail.letter import quoted, render
from sublet.mail.outbox import enqueue

ROTATIONS_MAX = 10_000
"""The maximum number of rotations by a token that are read from the audit, the newest first."""


class RevokedToken(Struct, frozen=True):
    """A token that was revoked, and its user.

    `leaked` is true if its own secret leaked. It is false if a token with a leaked secret has created or
    rotated it.
    """

    token: Token
    user: User
    leaked: bool


class LeakReport(Struct, frozen=True):
    """The number of different secrets in a report, and the tokens that were revoked because of it."""

    found: int
    revoked: tuple[RevokedToken, ...]


def revoke_leaked(tx: Tx, actor: Actor, text: str) -> LeakReport:
    """Revoke the tokens whose secrets are in a text of any form, and all tokens that were created or rotated
    with them, also if the user has revoked the leaked token already.

    The user gets one mail for each leaked token. Repeating a report changes nothing. Secrets that were never
    issued or were replaced by a rotation count as found.
    """
    secrets = find_secrets(text).tokens
    # A token that is being created with a leaked one is found after the lock.
    users = store.lock_users(tx, {each.user_id for each in _find_leaked(tx, secrets).values()})
    leaked = _find_leaked(tx, secrets)
    revoked: list[RevokedToken] = []
    for token in leaked.values():
        user = users[token.user_id]
        created = [each for each in _list_valid_descendants(tx, token) if each.id not in leaked]
        ended = created if token.revoked_at is not None else [token, *created]
        if not ended:
            continue
        revoked += [RevokedToken(revoke(tx, actor, each), user, leaked=each is token) for each in ended]
        message = render(
            "token_leaked",
            name=user.name,
            token_name=token.name,
            token_id=token.id,
            created=", ".join(f"{quoted(each.name)} (id {each.id})" for each in created),
        )
        page = "/tokens" if token.organization_id is None else f"/o/{token.organization_id}/tokens"
        enqueue(tx, user, message, reference=f"token_leaked:{token.id}", page=page)
    return LeakReport(len(secrets), tuple(revoked))


def _find_leaked(tx: Tx, secrets: Collection[str]) -> dict[int, Token]:
    found = (store.find_token_by_digest(tx, digest(each)) for each in sorted(secrets))
    return {each.id: each for each in found if each is not None}


def _list_valid_descendants(tx: Tx, token: Token) -> list[Token]:
    """Return the unrevoked tokens that this token has created or rotated, those that they have created or
    rotated, and so on. The token itself is left out.
    """
    found: dict[int, Token] = {token.id: token}
    newest = [token]
    while newest:
        reached = store.list_created_by(tx, [each.id for each in newest])
        reached += [other for each in newest for other in _list_rotated_by(tx, each)]
        newest = [each for each in reached if each.id not in found]
        found |= {each.id: each for each in newest}
    return [each for each in found.values() if each.revoked_at is None and each.id != token.id]


def _list_rotated_by(tx: Tx, token: Token) -> list[Token]:
    wanted = EventFilter(action="token.rotate", token_id=token.id, user_id=token.user_id)
    ids = {each.object_id for each in search_events(tx, wanted, ROTATIONS_MAX)}
    rotated = (store.find_token(tx, each) for each in sorted(ids))
    return [each for each in rotated if each is not None]
