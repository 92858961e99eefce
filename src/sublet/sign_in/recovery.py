"""Recover an account whose passkeys are lost: after 24 hours, a sign-in by mail counts like a sign-in with a passkey (docs/spec-choices.md)."""

from sublet import audit
from sublet.accounts.find import lock_acting_user, lock_requesting_user
from sublet.accounts.sessions import RECOVERY_WAIT, RECOVERY_WINDOW, Recovery
from sublet.audit import Actor
from sublet.db import Tx
from sublet.errors import Conflict
from sublet.sign_in import store
from sublet.sign_in.notices import notify


def start_recovery(tx: Tx, actor: Actor, public_url: str) -> Recovery:
    """Start a recovery, and mail the user how to stop it.

    Raises, in this order:
        AccountSuspended: the user is suspended.
        Conflict: the user has no passkeys, or already has a recovery.
    """
    user = lock_acting_user(tx, actor)
    present = store.find_recovery(tx, user.id)
    if present is not None and present.ends_at > tx.now:
        raise Conflict(
            f"A recovery has already started and will be ready at {present.ready_at:%Y-%m-%d %H:%M} UTC. Wait until then, or stop it with "
            "DELETE /passkeys/recovery."
        )
    if store.count_passkeys(tx, user.id) == 0:
        raise Conflict(
            "You have no passkeys, so a sign-in by mail is enough for everything. No action needed."
        )
    ready_at = tx.now + RECOVERY_WAIT
    recovery = Recovery(user.id, tx.now, ready_at, ready_at + RECOVERY_WINDOW)
    store.insert_recovery(tx, recovery)
    audit.record(tx, actor, "user.start_recovery", user.id, after={"ready_at": ready_at.isoformat()})
    sentence = (
        "A browser that is signed in to your account requested a recovery, because the passkeys are lost. "
        f"From {ready_at:%Y-%m-%d %H:%M} UTC, a sign-in by mail is enough to remove the passkeys. To stop the recovery, sign in with a passkey."
    )
    notify(tx, user, "recovery_started", user.id, sentence, public_url)
    return recovery


def stop_recovery(tx: Tx, actor: Actor, public_url: str) -> None:
    """Stop the user's recovery, and mail the user. Suspended users may stop it too.

    Raises:
        Conflict: the user has no recovery.
    """
    user = lock_requesting_user(tx, actor)
    if not store.delete_recovery(tx, user.id):
        raise Conflict("There is no recovery to stop. No action needed.")
    audit.record(tx, actor, "user.stop_recovery", user.id)
    notify(tx, user, "recovery_stopped", user.id, "The recovery of your account was stopped.", public_url)
