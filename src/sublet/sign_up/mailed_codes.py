"""Mail codes and links, and use each once (docs/spec-choices.md, "Opening an account")."""

from collections.abc import Collection
from typing import Any

from sublet.accounts.fields import check_email
from sublet.accounts.store import lock_organizations, lock_user
from sublet.accounts.tokens.issue import digest
from sublet.dates import is_future
from sublet.db import Tx
from sublet.errors import FieldError, ValidationFailed, validation_failed
from sublet.limits import CODES_OF_NETWORK_TO_ADDRESS, CODES_TO_ADDRESS, WRONG_CODES, Limit
from sublet.mail.letter import Message, render
from sublet.mail.outbox import enqueue_to
from sublet.sign_up import store
from sublet.sign_up.codes import TRIES_MAX, VALID_FOR, MailedCode, NewCode, matches_code

CODE_SENTENCE = (
    "This code is wrong, used or too old. Give the newest code, or ask for a new one. After too many wrong "
    "codes in a day, only the link in the mail works."
)


def may_mail_code(
    tx: Tx, email: str, network: str, purposes: Collection[str], mail_count: int, limit: Limit
) -> bool:
    """True if an address may get another code for these purposes.

    False if it got one within the last minute, or the maximum within an hour at the request of this network,
    or if `mail_count`, the number of its mails from `lock_and_count_mails`, has reached `limit`.
    """
    mailed = store.list_requests_for(tx, email, purposes, CODES_OF_NETWORK_TO_ADDRESS.since(tx.now))
    of_network = [each for each in mailed if each.network == network]
    return not (
        (mailed and mailed[0].at > CODES_TO_ADDRESS.since(tx.now))
        or len(of_network) >= CODES_OF_NETWORK_TO_ADDRESS.most
        or mail_count >= limit.most
    )


def mail_code(tx: Tx, new: NewCode, purpose: str, email: str, message: Message, **values: Any) -> int:
    """Store a code with these columns, mail the message that has it, and return the id of the code."""
    code_id = store.insert_code(tx, new, purpose, email, **values)
    expires_at = tx.now + VALID_FOR[purpose]
    enqueue_to(tx, email, message, reference=f"code:{code_id}", expires_at=expires_at)
    return code_id


def code_refusal() -> ValidationFailed:
    """Return the error for a refused code, the same for every reason."""
    return validation_failed([FieldError("code", "value_invalid", CODE_SENTENCE)])


def use_link(tx: Tx, link_token: str, purposes: Collection[str]) -> MailedCode | None:
    """Lock the user of a link's code, mark the code as used, and return it.

    Return None if the link is wrong, used, expired or for another purpose.

    Wrong codes don't make the link void. Otherwise a stranger could lock a person out by sending wrong codes.
    """
    found = _lock(tx, store.find_by_link(tx, digest(link_token)))
    return _use_if_valid(tx, found) if found is not None and found.purpose in purposes else None


def use_code(tx: Tx, email: str, code: str, purposes: Collection[str]) -> MailedCode | None:
    """Mark the newest code of an address as used, lock its user, and return the code.

    Return None if the typed code is wrong, void, used or expired.

    A wrong code is counted. After `WRONG_CODES`, all codes of the address
    are void, and the address gets a mail.
    """
    address, _ = check_email(email)
    found = _lock(tx, store.find_newest(tx, address, purposes))
    if found is None or found.tries >= TRIES_MAX or takes_only_links(tx, address, purposes):
        return None
    if not matches_code(found, code):
        store.count_try(tx, found.id)
        if takes_only_links(tx, address, purposes):
            # One code can reach the limit again, when the attempts of a day ago don't count any more.
            reference = f"wrong_codes:{found.id}:{found.tries + 1}"
            enqueue_to(tx, address, render("wrong_codes"), reference=reference)
        return None
    return _use_if_valid(tx, found)


def takes_only_links(tx: Tx, address: str, purposes: Collection[str]) -> bool:
    """True if the codes of an address for these purposes are void, because too many wrong codes were entered
    within 24 hours.
    """
    return store.count_tries_for(tx, address, purposes, WRONG_CODES.since(tx.now)) >= WRONG_CODES.most


def is_expired(tx: Tx, found: MailedCode) -> bool:
    """True if a code has expired, or was created in the future: after the clock was set back, an expired code
    would be valid again.
    """
    return found.expires_at <= tx.now or is_future(found.created_at, tx.now)


def _lock(tx: Tx, seen: MailedCode | None) -> MailedCode | None:
    """Lock the user of a code, the organization that it lets the user join, then the code.

    Return the code, or None if it was deleted meanwhile.
    """
    if seen is None:
        return None
    if seen.user_id is not None:
        lock_user(tx, seen.user_id)
    if seen.organization_id is not None:
        lock_organizations(tx, [seen.organization_id])
    return store.lock_code(tx, seen.id)


def _use_if_valid(tx: Tx, found: MailedCode) -> MailedCode | None:
    if found.used_at is not None or is_expired(tx, found):
        return None
    store.use_code(tx, found.id)
    return found
