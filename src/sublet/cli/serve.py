"""`sublet serve`, `api`, `worker` and `dns`: the commands that run until SIGTERM or SIGINT."""

import asyncio
import signal
from collections.abc import Callable, Coroutine
from typing import Annotated, Any

from typer import Option

from sublet.cli.output import Answer
from sublet.cli.session import Session, command, new_app
from sublet.config import Settings

serve_app = new_app()
api_app = new_app()
worker_app = new_app()
dns_app = new_app()
WORKERS_MAX = 64
Role = Callable[[Settings, asyncio.Event], Coroutine[Any, Any, None]]


@command(serve_app, "serve")
def serve(session: Session) -> Answer:
    """Run API, worker and name server in one process until SIGTERM.

    The first line of the log has the addresses.
    """
    from sublet.service.roles import run_service  # noqa: PLC0415 - other commands don't need the service's modules

    return _run(session.settings, run_service)


@command(api_app, "api")
def api(
    session: Session,
    *,
    workers: Annotated[
        int, Option(metavar="N", min=1, max=WORKERS_MAX, help="The number of processes that answer requests.")
    ] = 1,
) -> Answer:
    """Run the API in one or more processes until SIGTERM. Needs PostgreSQL. SIGHUP replaces the processes."""
    from sublet.service.api_parent import run_api  # noqa: PLC0415 - see serve()

    return _run(session.settings, lambda settings, stop: run_api(settings, stop, workers, session.config))


@command(worker_app, "worker")
def worker(session: Session) -> Answer:
    """Run the worker (publishing, sweep, mail, checks) until SIGTERM. Needs PostgreSQL."""
    from sublet.service.roles import run_worker  # noqa: PLC0415 - see serve()

    return _run(session.settings, run_worker)


@command(dns_app, "dns")
def dns(session: Session) -> Answer:
    """Run the built-in name server until SIGTERM. Needs PostgreSQL."""
    from sublet.service.roles import run_dns  # noqa: PLC0415 - see serve()

    return _run(session.settings, run_dns)


def _run(settings: Settings, role: Role) -> Answer:
    from sublet.service.event_loop import run_event_loop  # noqa: PLC0415 - see serve()
    from sublet.service.logs import configure_logs  # noqa: PLC0415

    configure_logs(settings)
    run_event_loop(_run_until_signal(settings, role))
    return Answer({"stopped": True})


async def _run_until_signal(settings: Settings, role: Role) -> None:
    from sublet.service.systemd import notify  # noqa: PLC0415

    stop = asyncio.Event()

    def end() -> None:
        notify("STOPPING=1")
        stop.set()

    for number in (signal.SIGTERM, signal.SIGINT):
        asyncio.get_running_loop().add_signal_handler(number, end)
    await role(settings, stop)
