"""`sublet serve`: start everything in one process."""

import asyncio

import uvloop

from sublet.cli.logs import configure_logs
from sublet.cli.service import run_service
from sublet.config import Settings


def serve(settings: Settings) -> None:
    """Serve API, worker and name server until SIGTERM; the addresses are in the first line of the log.

    Raises:
        Unavailable: as `run_service`.
    """
    configure_logs(settings)
    with asyncio.Runner(loop_factory=uvloop.new_event_loop) as runner:
        runner.run(run_service(settings))
