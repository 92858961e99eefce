"""Require a recent sign-in for sensitive changes (docs/spec-choices.md, "Signing in")."""

from sublet.accounts import session_store
from sublet.accounts.sessions import RECENT_SIGN_IN, SIGN_IN_METHODS, sufficient_sign_in_methods
from sublet.audit import Actor
from sublet.dates import is_future
from sublet.db import Tx
from sublet.errors import SessionInvalid, SignInRequired


def require_recent_sign_in(tx: Tx, actor: Actor, *, any_method: bool = False) -> None:
    """Raise an error unless the last sign-in of the request's session is at most ten minutes ago.

    Requests with a token pass.

    Called before the body of a sensitive operation is read (`operations/operation.py`), and by the verbs that
    charge credits, which know the price. With `any_method`, which recoveries use, a sign-in by mail is enough
    even if the user has passkeys.

    Raises, in this order:
        SessionInvalid: the session ended after the request was authenticated.
        SignInRequired: the last sign-in is too old, is in the future because the clock was set back, or was
            by mail although the user has passkeys.
    """
    if actor.session_id is None:
        return
    last = session_store.find_sign_in(tx, actor.session_id)
    if last is None:
        raise SessionInvalid("This session has ended. Sign in again.")
    methods = SIGN_IN_METHODS if any_method else sufficient_sign_in_methods(last, tx.now)
    is_recent = tx.now - last.signed_in_at <= RECENT_SIGN_IN and not is_future(last.signed_in_at, tx.now)
    if last.how in methods and is_recent:
        return
    minutes = int(RECENT_SIGN_IN.total_seconds() // 60)
    sentence = f"This needs a sign-in within the last {minutes} minutes. Sign in again, then try again."
    if last.how not in methods:
        sentence = (
            f"This needs a sign-in with a passkey within the last {minutes} minutes. Sign in with a "
            "passkey, then try again. If you have lost your passkeys, start their recovery."
        )
    details = {"limit_seconds": int(RECENT_SIGN_IN.total_seconds()), "how": list(methods)}
    raise SignInRequired(sentence, details=details)
