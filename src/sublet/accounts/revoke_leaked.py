"""Revoke the tokens that a report of leaked secrets names (`sublet token revoke-leaked`)."""

from collections.abc import Callable
from dataclasses import dataclass

from sublet.accounts import store
from sublet.accounts.model import Token, User
from sublet.accounts.tokens import digest, find_secrets, revoke
from sublet.audit import Actor
from sublet.db import Tx

SUBJECT = "Your token {name} was revoked"
TEXT = """\
Hello {user_name},

a secret of your token "{token_name}" (id {token_id}) was found where others can read it. The token was revoked: from now on the API refuses
it{created}.

Remove the secret from where it was published, look at your names, payments and tokens for what you did not do, and issue
another token.
"""


@dataclass(frozen=True, slots=True)
class RevokedToken:
    """A token that was revoked, its user, and why: its own secret leaked, or that of a token that created it."""

    token: Token
    user: User
    leaked: bool


@dataclass(frozen=True, slots=True)
class LeakReport:
    """How many different tokens a report has, and those that were revoked for it."""

    found: int
    revoked: tuple[RevokedToken, ...]


def revoke_leaked(tx: Tx, actor: Actor, text: str, *, tell: Callable[..., int]) -> LeakReport:
    """Revoke the valid tokens whose secrets are in a text of any form, and all tokens that were created with them.

    `tell` adds a mail to the outbox (`mail.outbox.enqueue`): each user gets one for each leaked token. The same report again changes
    nothing. Secrets that no token has, and former ones whose time is over, are counted as found.
    """
    secrets = find_secrets(text).tokens
    by_secret = [store.find_token_by_digest(tx, digest(each)) for each in sorted(secrets)]
    leaked = {each.id: each for each in by_secret if each is not None and each.revoked_at is None}
    revoked: list[RevokedToken] = []
    for token in leaked.values():
        user = store.find_user(tx, token.user_id)
        assert user is not None  # noqa: S101 - the foreign key holds it
        created = [each for each in _created_with(tx, token) if each.id not in leaked]
        revoked += [
            RevokedToken(revoke(tx, actor, each), user, leaked=each is token) for each in (token, *created)
        ]
        names = ", ".join(f"{each.name} (id {each.id})" for each in created)
        tell(
            tx,
            user,
            reference=f"token_leaked:{token.id}",
            subject=SUBJECT.format(name=token.name),
            text=TEXT.format(
                user_name=user.name,
                token_name=token.name,
                token_id=token.id,
                created=f", and those that were created with it: {names}" if created else "",
            ),
        )
    return LeakReport(len(secrets), tuple(revoked))


def _created_with(tx: Tx, token: Token) -> list[Token]:
    """Return the tokens that are not revoked and were created with this one, or with one of those."""
    found: dict[int, Token] = {}
    newest = [token]
    while newest:
        newest = store.list_created_by(tx, [each.id for each in newest])
        found |= {each.id: each for each in newest}
    return [each for each in found.values() if each.revoked_at is None]
