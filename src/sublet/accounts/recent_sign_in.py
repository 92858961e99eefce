"""Require a recent sign-in for what is sensitive (docs/spec-choices.md, "Signing in")."""

from sublet.accounts import session_store
from sublet.accounts.sessions import HOW, RECENT, sufficient_sign_in_methods
from sublet.audit import Actor
from sublet.db import Tx
from sublet.errors import SessionInvalid, SignInRequired


def require_recent_sign_in(tx: Tx, actor: Actor, *, any_way: bool = False) -> None:
    """Raise unless the session of the request was signed in within the last ten minutes. A token passes.

    Every verb that does what is sensitive calls this after `lock_acting_user`. `any_way` is for a recovery: a sign-in by mail is
    then enough for a user who has passkeys too.

    Raises, in this order:
        SessionInvalid: the session has ended a moment ago.
        SignInRequired: its last sign-in is too old, or was by mail and the user has passkeys.
    """
    if actor.session_id is None:
        return
    last = session_store.find_sign_in(tx, actor.session_id)
    if last is None:
        raise SessionInvalid("This session has ended. Sign in again.")
    ways = HOW if any_way else sufficient_sign_in_methods(last, tx.now)
    if last.how in ways and tx.now - last.signed_in_at <= RECENT:
        return
    minutes = int(RECENT.total_seconds() // 60)
    sentence = (
        f"This needs a sign-in within the last {minutes} minutes. Sign in again, then repeat the request."
    )
    if last.how not in ways:
        sentence = (
            f"This needs a sign-in with a passkey within the last {minutes} minutes. Sign in with one, then repeat the request; if you "
            "have lost them, start a recovery with POST /passkeys/recovery."
        )
    details = {"limit_seconds": int(RECENT.total_seconds()), "how": list(ways)}
    raise SignInRequired(sentence, details=details)
