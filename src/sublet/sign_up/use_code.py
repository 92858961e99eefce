"""Use a mailed code or link once (docs/spec-choices.md, "Opening an account")."""

from collections.abc import Collection

from sublet.accounts.fields import check_email
from sublet.accounts.tokens import digest
from sublet.db import Tx
from sublet.sign_up import store
from sublet.sign_up.codes import TRIES_MAX, MailedCode, is_right


def use_link(tx: Tx, link_token: str, purposes: Collection[str]) -> MailedCode | None:
    """Return the code of a link's token and mark it as used; None if it is for other purposes, wrong, used or expired.

    Wrong codes don't make the link void: a stranger could send them to keep a person out.
    """
    found = store.lock_by_link(tx, digest(link_token))
    return _used(tx, found) if found is not None and found.purpose in purposes else None


def use_code(tx: Tx, email: str, code: str, purposes: Collection[str]) -> MailedCode | None:
    """Return the newest code of an address and mark it as used; None if it is wrong, void, used or expired. A wrong try is counted."""
    address, _ = check_email(email)
    found = store.lock_newest(tx, address, purposes)
    if found is not None and (found.tries >= TRIES_MAX or not is_right(found, code)):
        store.count_try(tx, found.id)
        return None
    return _used(tx, found) if found is not None else None


def _used(tx: Tx, found: MailedCode) -> MailedCode | None:
    if found.used_at is not None or found.expires_at <= tx.now:
        return None
    store.use_code(tx, found.id)
    return found
