"""Use a mailed code or link once (docs/spec-choices.md, "Opening an account")."""

from collections.abc import Collection

from sublet.accounts.fields import check_email
from sublet.accounts.store import lock_user
from sublet.accounts.tokens import digest
from sublet.db import Tx
from sublet.sign_up import store
from sublet.sign_up.codes import TRIES_MAX, MailedCode, matches_code


def use_link(tx: Tx, link_token: str, purposes: Collection[str]) -> MailedCode | None:
    """Mark the code of a link's token as used, lock its user, and return the code. Return None if the token is wrong, used, expired or for another purpose.

    Wrong codes don't make the link void. Otherwise a stranger could lock a person out by sending wrong codes.
    """
    found = _lock(tx, store.find_by_link(tx, digest(link_token)))
    return _use_if_valid(tx, found) if found is not None and found.purpose in purposes else None


def use_code(tx: Tx, email: str, code: str, purposes: Collection[str]) -> MailedCode | None:
    """Mark the newest code of an address as used, lock its user, and return the code. Return None if the typed code is wrong, void, used or expired.

    A wrong code is counted.
    """
    address, _ = check_email(email)
    found = _lock(tx, store.find_newest(tx, address, purposes))
    if found is not None and (found.tries >= TRIES_MAX or not matches_code(found, code)):
        store.count_try(tx, found.id)
        return None
    return _use_if_valid(tx, found) if found is not None else None


def _lock(tx: Tx, seen: MailedCode | None) -> MailedCode | None:
    """Lock the user of a code, then the code, and return the code, or None if it was deleted meanwhile."""
    if seen is None:
        return None
    if seen.user_id is not None:
        lock_user(tx, seen.user_id)
    return store.lock_code(tx, seen.id)


def _use_if_valid(tx: Tx, found: MailedCode) -> MailedCode | None:
    if found.used_at is not None or found.expires_at <= tx.now:
        return None
    store.use_code(tx, found.id)
    return found
