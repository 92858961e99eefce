"""Check the sweep: what `sublet doctor` asks of it."""

from collections.abc import Iterator
from datetime import timedelta

from sublet.counted import counted
from sublet.db import Tx
from sublet.invariants import Violation
from sublet.subdomains import check_store, sweep_store
from sublet.subdomains.lifecycle import auto_renew_at, cooling_off_ends_at, lost_at
from sublet.subdomains.milestones import next_milestone_at

LATE_MAX = timedelta(minutes=5)


def check_sweep(tx: Tx) -> list[Violation]:
    """Return whether the sweep is stopped, or is late; and of which names it would come too late, by what is stored."""
    found = [*_check_dates(tx)]
    state = sweep_store.find_clockwork(tx)
    if state.stopped_at is not None and not state.resumed:
        sentence = (
            f"stopped at {state.stopped_at:%Y-%m-%d %H:%M} UTC: {str(state.stopped_reason).rstrip('.')}. "
            "`sublet sweep resume` lets it go on."
        )
        return [*found, Violation("sweep_runs", "sweep", 1, sentence)]
    late = sweep_store.find_late(tx, LATE_MAX)
    if late is not None:
        count, first = late
        sentence = f"the dates of {counted(count, 'name')} wait for the sweep, this is the first; is the worker running?"
        found.append(Violation("sweep_is_in_time", "subdomain", first, sentence))
    return found


def _check_dates(tx: Tx) -> Iterator[Violation]:
    """Which names is the sweep not to look at before their dates, as the rules reckon them, have passed?"""
    dates = {each[0]: each[1:] for each in sweep_store.list_dates(tx)}
    redated_up_to = sweep_store.list_redated_up_to(tx)
    for subdomain in check_store.stream_all(tx):
        if subdomain.id > redated_up_to.get(subdomain.platform_domain_id, subdomain.id):
            continue  # the sweep has yet to recompute its dates
        due_at, loss_at = dates.get(subdomain.id, (tx.now, None))
        if due_at is not None and due_at <= tx.now:
            continue  # it is looked at before anything else
        ahead = (
            next_milestone_at(subdomain, tx.now),
            auto_renew_at(subdomain),
            cooling_off_ends_at(subdomain),
        )
        wanted = min((each for each in ahead if each is not None), default=None)
        over_at = lost_at(subdomain)
        late = wanted is not None and wanted > tx.now and (due_at is None or due_at > wanted)
        if late or (over_at is not None and loss_at != over_at):
            sentence = f"the sweep would look at it at {due_at}, and take it at {loss_at}: by the rules {wanted}, {over_at}"
            yield Violation("dates_are_reckoned", "subdomain", subdomain.id, sentence)
