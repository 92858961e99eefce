"""`sublet dns`: start a built-in name server alone."""

from sublet.cli.foreground import serve_until_signal
from sublet.cli.output import Answer
from sublet.cli.session import Session, new_app, question

app = new_app()


@question(app, "dns")
def dns(session: Session) -> Answer:
    """Serve the zones on the built-in name server until SIGTERM, beside other processes; needs PostgreSQL."""
    from sublet.service.roles import run_dns  # noqa: PLC0415 - loaded by a server only

    return serve_until_signal(session.settings, run_dns)
