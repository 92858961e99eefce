"""Query all name servers of a zone concurrently for what a name publishes."""

import asyncio
from collections.abc import Collection, Sequence

from msgspec import Struct

from sublet.dns.read_back import ReadBackFailed, read_served
from sublet.dns.types import Record

QUERY_SECONDS = 3.0
"""The timeout of each server, and of all servers together, because they are queried concurrently."""


class ParentServer(Struct, frozen=True):
    """A name server of a platform domain's zone. `server` is its public host name.

    `role` is primary, secondary or built_in. `address` is its IP address and port; None if the settings have
    no address.
    """

    server: str
    role: str
    address: tuple[str, int] | None


class ServerAnswer(Struct, frozen=True):
    """A server's answer: the zone's serial and the records of the name, or only a `failure`.

    `failure` is not_set_up, unreachable, no_answer or bad_response.
    """

    server: ParentServer
    serial: int | None = None
    records: tuple[Record, ...] = ()
    failure: str | None = None


async def query_servers(
    servers: Sequence[ParentServer],
    zone: str,
    name: str,
    desired: Collection[Record],
    *,
    empty_owners: Sequence[str] = (),
) -> list[ServerAnswer]:
    """Return each server's answer for `name` below `zone`, over TCP, in the order of `servers`.

    `desired` are the records that the servers should have for the name.     `empty_owners` are owners that
    should have no records. Each answer also contains the records that the server has at these owners. A
    problem of a server becomes the `failure` of its answer, and raises nothing.
    """

    async def query(server: ParentServer) -> ServerAnswer:
        if server.address is None:
            return ServerAnswer(server, failure="not_set_up")
        try:
            served = await read_served(
                server.address, zone, name, desired, timeout_seconds=QUERY_SECONDS, empty_owners=empty_owners
            )
        except ReadBackFailed as error:
            return ServerAnswer(server, failure=error.cause)
        return ServerAnswer(server, served.serial, served.records)

    return list(await asyncio.gather(*(query(server) for server in servers)))
