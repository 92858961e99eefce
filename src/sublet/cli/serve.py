"""`sublet serve`: start everything in one process."""

from sublet.cli.foreground import serve_until_signal
from sublet.cli.output import Answer
from sublet.cli.session import Session, new_app, question

app = new_app()


@question(app, "serve")
def serve(session: Session) -> Answer:
    """Serve API, worker and name server in one process until SIGTERM; the first line of the log says where."""
    from sublet.service.roles import run_service  # noqa: PLC0415 - loaded by a server only

    return serve_until_signal(session.settings, run_service)
