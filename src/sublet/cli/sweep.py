"""`sublet sweep …`: what time does to names, and the word that its brake waits for."""

from datetime import timedelta
from typing import Any

import typer

from sublet.cli.output import Answer, facts
from sublet.cli.session import Session, change, question
from sublet.db import Tx
from sublet.subdomains import sweep_store
from sublet.subdomains.resume_sweep import resume_sweep
from sublet.subdomains.stop_sweep import stop_sweep

app = typer.Typer(
    help="The sweep: reminders, expired names to the trash, the trash emptied.", no_args_is_help=True
)
_DAYS = (1, 7, 30)


def _describe(tx: Tx) -> dict[str, Any]:
    state = sweep_store.find_clockwork(tx)
    stopped = state.stopped_at is not None and not state.resumed
    return {
        "running": not stopped,
        "seen_at": state.seen_at,
        "stopped_at": state.stopped_at,
        "stopped_reason": state.stopped_reason,
        "losses_now": sweep_store.count_losses(tx, tx.now),
        **{
            f"losses_in_{days}_days": sweep_store.count_losses(tx, tx.now + timedelta(days=days))
            for days in _DAYS
        },
        "names": sweep_store.count_names(tx),
    }


def _answer(session: Session, *lines: str) -> Answer:
    found = session.read(_describe)
    return Answer(found, lines or facts(**found))


@question(app, "status")
def status(session: Session) -> Answer:
    """Tell whether the sweep runs or why not, and how many names go to the trash or are purged by their dates."""
    return _answer(session)


@change(app, "stop")
def stop(session: Session) -> Answer:
    """Let time do nothing to names until `sublet sweep resume`: no reminders, no trash, no purge. Publishing goes on."""
    session.write(stop_sweep, session.actor.reason)
    return _answer(session, "The sweep is stopped; `sublet sweep resume` lets it go on.")


@change(app, "resume")
def resume(session: Session) -> Answer:
    """Let the sweep go on: the clock is right, and the names it stopped before losing may be lost."""
    session.write(resume_sweep)
    return _answer(session, "The sweep goes on, at the worker's next look.")
