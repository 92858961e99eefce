"""`sublet api`: serve the API in processes of its own."""

from typing import Annotated

import typer

from sublet.cli.foreground import serve_until_signal
from sublet.cli.output import Answer
from sublet.cli.session import Session, new_app, question

app = new_app()
WORKERS_MAX = 64


@question(app, "api")
def api(
    session: Session,
    *,
    workers: Annotated[
        int,
        typer.Option(
            "--workers", metavar="N", min=1, max=WORKERS_MAX, help="How many processes answer requests."
        ),
    ] = 1,
) -> Answer:
    """Serve the API in processes of its own until SIGTERM, beside other processes; needs PostgreSQL. SIGHUP replaces them."""
    from sublet.service.api_parent import run_api  # noqa: PLC0415 - loaded by a server only

    return serve_until_signal(
        session.settings, lambda settings, stop: run_api(settings, stop, workers, session.config)
    )
