"""`sublet serve`: start everything in one process."""

import asyncio
import signal

import typer

from sublet.cli.output import Answer
from sublet.cli.session import Session, question
from sublet.config import Settings

app = typer.Typer()


@question(app, "serve")
def serve(session: Session) -> Answer:
    """Serve API, worker and name server in one process until SIGTERM; the first line of the log says where."""
    import uvloop  # noqa: PLC0415 - what only a server needs is loaded by none of the other commands

    from sublet.cli.logs import configure_logs  # noqa: PLC0415

    configure_logs(session.settings)
    with asyncio.Runner(loop_factory=uvloop.new_event_loop) as runner:
        runner.run(_until_signal(session.settings))
    return Answer({"stopped": True})


async def _until_signal(settings: Settings) -> None:
    from sublet.cli.service import run_service  # noqa: PLC0415

    stop = asyncio.Event()
    for number in (signal.SIGTERM, signal.SIGINT):
        asyncio.get_running_loop().add_signal_handler(number, stop.set)
    await run_service(settings, stop)
