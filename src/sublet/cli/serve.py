"""`sublet serve`: start everything in one process."""

from sublet.cli.commands import new_app
from sublet.cli.foreground import serve_until_signal
from sublet.cli.output import Answer
from sublet.cli.session import Session, question

app = new_app()


@question(app, "serve")
def serve(session: Session) -> Answer:
    """Serve API, worker and name server in one process until SIGTERM; the first line of the log says where."""
    from sublet.processors import stay_on_one_processor  # noqa: PLC0415 - what only a server needs
    from sublet.service.roles import run_service  # noqa: PLC0415
    from sublet.sqlite_copy import sqlite_path  # noqa: PLC0415

    settings = session.settings
    if settings.one_processor == "yes" and sqlite_path(settings.database_url) is not None:
        stay_on_one_processor()
    return serve_until_signal(settings, run_service)
