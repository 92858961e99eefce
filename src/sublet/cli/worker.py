"""`sublet worker`: start the worker alone."""

from sublet.cli.foreground import serve_until_signal
from sublet.cli.output import Answer
from sublet.cli.session import Session, new_app, question

app = new_app()


@question(app, "worker")
def worker(session: Session) -> Answer:
    """Publish, sweep, mail and watch until SIGTERM, beside processes that serve the API; needs PostgreSQL."""
    from sublet.service.roles import run_worker  # noqa: PLC0415 - loaded by a server only

    return serve_until_signal(session.settings, run_worker)
