"""Stop the sweep (the operator's `sublet sweep stop`; the brake does it by itself)."""

from sublet import audit
from sublet.accounts.fields import check_reason
from sublet.audit import Actor
from sublet.db import Tx
from sublet.errors import Conflict, validation_failed
from sublet.subdomains import sweep_store
from sublet.subdomains.sweep_store import Clockwork


def stop_sweep(tx: Tx, actor: Actor, reason: str | None = None, *, losses: int = 0) -> Clockwork:
    """Let time do nothing to names until the operator resumes the sweep; publishing goes on.

    `losses` is how many names would have been lost: what the operator's word then lets go.

    Raises, in this order:
        ValidationFailed: the reason is too long or doesn't print.
        Conflict: it is stopped already.
    """
    state = sweep_store.lock_clockwork(tx)
    text, errors = check_reason(reason)
    if errors:
        raise validation_failed(errors)
    if state.stopped_at is not None and not state.resumed:
        raise Conflict("The sweep is stopped already. See `sublet sweep status`.")
    why = text or "The operator stopped it."
    sweep_store.update_clockwork(
        tx, stopped_at=tx.now, stopped_reason=why, stopped_losses=losses, resumed=False
    )
    audit.record(tx, actor, "sweep.stop", "sweep", 1, after={"reason": why, "losses": losses})
    return sweep_store.find_clockwork(tx)
