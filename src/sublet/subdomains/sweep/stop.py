"""Stop and resume the sweep (the operator's `sublet sweep stop` and `resume`; the brake stops it too)."""

from sublet import audit
from sublet.accounts.fields import check_reason
from sublet.audit import Actor
from sublet.db import Tx
from sublet.errors import Conflict, validation_failed
from sublet.mail.operator_notices import notify_operator
from sublet.subdomains.sweep import store
from sublet.subdomains.sweep.store import SweepState


def stop_sweep(tx: Tx, actor: Actor, reason: str | None = None, *, losses: int = 0) -> SweepState:
    """Stop the sweep until the operator resumes it. Publishing continues. If the brake stops it, notify the operator.

    `losses` is the number of losses that the sweep was about to cause. `resume_sweep` will allow this number.

    Raises, in this order:
        ValidationFailed: the reason is too long or has unprintable characters.
        Conflict: the sweep is stopped already.
    """
    state = store.lock_sweep_state(tx)
    text, errors = check_reason(reason)
    if errors:
        raise validation_failed(errors)
    if state.stopped_at is not None and not state.resumed:
        raise Conflict("The sweep is stopped already. See `sublet sweep status`.")
    why = text or "The operator stopped it."
    store.update_sweep_state(tx, stopped_at=tx.now, stopped_reason=why, stopped_losses=losses, resumed=False)
    audit.record(tx, actor, "sweep.stop", 1, after={"reason": why, "losses": losses})
    if actor.kind == "system":
        notify_operator(
            tx,
            "sweep",
            f"The sweep has stopped, so names don't expire: {why} Check the clock with `sublet sweep status`, then run `sublet sweep resume`.",
            reference=f"sweep:{tx.now.isoformat()}",
        )
    return store.find_sweep_state(tx)


def resume_sweep(tx: Tx, actor: Actor) -> SweepState:
    """Resume the sweep after the operator has checked the clock. Allow the number of losses that the sweep was about to cause.

    The worker continues within a second. The brake stops the sweep again if more losses are due.

    Raises:
        Conflict: the sweep is not stopped.
    """
    state = store.lock_sweep_state(tx)
    if state.stopped_at is None or state.resumed:
        raise Conflict("The sweep is not stopped. No action needed.")
    store.update_sweep_state(tx, resumed=True)
    before = {"reason": state.stopped_reason, "losses": state.stopped_losses}
    audit.record(tx, actor, "sweep.resume", 1, before=before)
    return store.find_sweep_state(tx)
