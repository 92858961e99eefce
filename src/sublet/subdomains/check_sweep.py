"""Check the sweep: what `sublet doctor` asks of it."""

from datetime import timedelta

from sublet.db import Tx
from sublet.invariants import Violation
from sublet.subdomains import sweep_store

LATE_MAX = timedelta(minutes=5)


def check_sweep(tx: Tx) -> list[Violation]:
    """Return whether the sweep is stopped, or else the names that it should have looked at minutes ago."""
    state = sweep_store.find_clockwork(tx)
    if state.stopped_at is not None and not state.resumed:
        sentence = (
            f"stopped at {state.stopped_at}: {state.stopped_reason} `sublet sweep resume` lets it go on."
        )
        return [Violation("sweep_runs", "sweep", 1, sentence)]
    return [
        Violation(
            "sweep_is_in_time",
            "subdomain",
            subdomain_id,
            "its dates wait for the sweep; is the worker running?",
        )
        for subdomain_id in sweep_store.list_late(tx, LATE_MAX)
    ]
