"""`sublet sweep …`: show, stop and resume the sweep."""

from datetime import timedelta
from typing import Any

from sublet.cli.output import Answer, Table, key_value_lines
from sublet.cli.session import Session, audited_command, command, new_app
from sublet.counted import counted
from sublet.db import Tx
from sublet.subdomains.sweep import store as sweep_store
from sublet.subdomains.sweep.brake import resume_sweep, stop_sweep
from sublet.subdomains.sweep.plausible_clock import find_implausible_clock_reason

app = new_app("Show, stop and resume the sweep, which sends reminders, and trashes and purges names.")
_DAYS = (0, 1, 7, 30)
_RECENT = timedelta(minutes=5)


def _describe(tx: Tx) -> dict[str, Any]:
    state = sweep_store.find_sweep_state(tx)
    stopped = state.stopped_at is not None and not state.resumed
    is_recent = state.seen_at is not None and abs(tx.now - state.seen_at) <= _RECENT
    ahead = []
    for days in _DAYS:
        to_trash, to_purge = sweep_store.count_losses_by_rule(tx, tx.now + timedelta(days=days))
        ahead.append({"days": days, "to_trash": to_trash, "to_purge": to_purge})
    return {
        "running": is_recent and not stopped,
        "stopped": stopped,
        "seen_at": state.seen_at,
        "stopped_at": state.stopped_at,
        "stopped_reason": state.stopped_reason,
        "clock_implausible": find_implausible_clock_reason(tx),
        "names": sweep_store.count_names(tx),
        "ahead": ahead,
    }


def _lines(found: dict[str, Any]) -> tuple[str, ...]:
    if found["stopped"]:
        state = "stopped; `sublet sweep resume` resumes it"
    elif found["running"]:
        state = "running"
    else:
        state = "not running: no worker has run it in the last five minutes"
    shown = {name: found[name] for name in ("seen_at", "stopped_at", "stopped_reason", "names")}
    if found["clock_implausible"] is not None:
        shown["registrations"] = f"refused; {found['clock_implausible']}"
    return key_value_lines(sweep=state, **shown)


def _table(found: dict[str, Any]) -> Table:
    when = {0: "now", 1: "within a day"}
    rows = tuple(
        (when.get(each["days"], f"within {counted(each['days'], 'day')}"), each["to_trash"], each["to_purge"])
        for each in found["ahead"]
    )
    return Table(("by their dates", "to the trash", "purged"), rows)


def _answer(session: Session, *lines: str) -> Answer:
    found = session.read(_describe)
    return Answer(found, lines or _lines(found), None if lines else _table(found))


@command(app, "status")
def status(session: Session) -> Answer:
    """Show the state of the sweep, and the number of names that it will trash and purge by their dates."""
    return _answer(session)


@audited_command(app, "stop")
def stop(session: Session) -> Answer:
    """Stop the sweep until `sublet sweep resume`. Publishing continues."""
    session.write(stop_sweep, session.actor.reason)
    return _answer(session, "The sweep is stopped. `sublet sweep resume` resumes it.")


@audited_command(app, "resume")
def resume(session: Session) -> Answer:
    """Resume the sweep.

    This confirms that the clock is right, and that the names which are due may be trashed and purged.
    """
    session.write(resume_sweep)
    return _answer(session, "The worker resumes the sweep within a second. See `sublet sweep status`.")
