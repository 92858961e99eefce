"""Resume the sweep (the operator's `sublet sweep resume`): the word that its brake waits for."""

from sublet import audit
from sublet.audit import Actor
from sublet.db import Tx
from sublet.errors import Conflict
from sublet.subdomains import sweep_store
from sublet.subdomains.sweep_store import Clockwork


def resume_sweep(tx: Tx, actor: Actor) -> Clockwork:
    """Say that the clock is right, and that the names may be lost that would have been when the sweep stopped.

    The worker takes the word at its next look, by its own clock. Should more names be in danger by then, it stops again.

    Raises:
        Conflict: it is not stopped.
    """
    state = sweep_store.lock_clockwork(tx)
    if state.stopped_at is None or state.resumed:
        raise Conflict("The sweep is not stopped. No action needed.")
    sweep_store.update_clockwork(tx, resumed=True)
    before = {"reason": state.stopped_reason, "losses": state.stopped_losses}
    audit.record(tx, actor, "sweep.resume", "sweep", 1, before=before)
    return sweep_store.find_clockwork(tx)
