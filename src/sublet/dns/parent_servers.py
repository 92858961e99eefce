"""What each name server of a parent zone answers for one delegation now: all asked at once, in bounded time."""

import asyncio
from collections.abc import Sequence
from dataclasses import dataclass

from sublet.dns.read_back import ReadBackFailed, read_delegation
from sublet.dns.types import Record

ASK_SECONDS = 3.0
"""How long a server may take for everything; all are asked at once, so it is what the asking takes at most."""


@dataclass(frozen=True, slots=True)
class ParentServer:
    """A name server of a platform domain's zone: `server` is the host name that everybody may know.

    `role` is primary, secondary or built_in. `address` is where we ask it, IP address and port; None: nothing says where.
    """

    server: str
    role: str
    address: tuple[str, int] | None


@dataclass(frozen=True, slots=True)
class ServerAnswer:
    """What a server answered: the zone's serial and the records of the delegation; or why there is no answer.

    `failure` is not_set_up, unreachable, no_answer or bad_response; then there is nothing else.
    """

    server: ParentServer
    serial: int | None = None
    records: tuple[Record, ...] = ()
    failure: str | None = None


async def ask_servers(
    servers: Sequence[ParentServer],
    zone: str,
    name: str,
    *,
    also_absent: Sequence[str] = (),
    timeout_seconds: float = ASK_SECONDS,
) -> list[ServerAnswer]:
    """Ask every server for the delegation at `name` below `zone`, over TCP, and return their answers in the order given.

    `also_absent` are owners at which nothing should be; what is there all the same is among the records. Whatever goes wrong with a
    server is its `failure`; nothing is raised.
    """

    async def ask(server: ParentServer) -> ServerAnswer:
        if server.address is None:
            return ServerAnswer(server, failure="not_set_up")
        try:
            served = await read_delegation(
                server.address, zone, name, timeout_seconds=timeout_seconds, also_absent=also_absent
            )
        except ReadBackFailed as error:
            return ServerAnswer(server, failure=error.cause)
        return ServerAnswer(server, served.serial, served.records)

    return list(await asyncio.gather(*(ask(server) for server in servers)))
