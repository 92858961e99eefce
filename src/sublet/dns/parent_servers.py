"""Query the name servers of a zone for what a name publishes: all once, or the secondaries until they answer
with a change.
"""

import asyncio
from collections.abc import Collection, Iterable, Sequence

from msgspec import Struct

from sublet.dns.difference import matches
from sublet.dns.read_back import ReadBackFailed, read_back, read_served
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

    `desired` are the records that the servers should have for the name. `empty_owners` are owners that
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


POLL_SECONDS = 0.1
"""The pause between two queries to a server."""
POLL_QUERY_SECONDS = 2.0
"""The timeout of the queries of `ServedWaiter` to a server."""


class _Awaited(Struct, frozen=True, eq=False):
    name: str
    desired: tuple[Record, ...]
    served: asyncio.Future[None]


class ServedWaiter:
    """The requests that wait until a zone's secondaries serve their changes, with one query loop a server for
    all of them.

    The records are compared, and not the serial: a secondary of a primary that was rolled back may have a
    newer serial and an old zone.
    """

    def __init__(self) -> None:
        self._awaited: dict[tuple[str, ParentServer], list[_Awaited]] = {}
        self._polling: set[asyncio.Task[None]] = set()

    async def wait(
        self,
        servers: Iterable[ParentServer],
        zone: str,
        name: str,
        desired: tuple[Record, ...],
        seconds: float,
    ) -> Sequence[ParentServer]:
        """Wait at most `seconds` until each secondary among `servers` serves exactly `desired` for a name.

        Return those that don't.

        Not checked: the primary, because the publisher reads each change back from it.
        """
        secondaries = [each for each in servers if each.role == "secondary"]
        if not secondaries or seconds <= 0:
            return secondaries
        awaited = [self._start(zone, each, name, desired) for each in secondaries]
        try:
            await asyncio.wait([each.served for each in awaited], timeout=seconds)
            return [
                server for server, each in zip(secondaries, awaited, strict=True) if not each.served.done()
            ]
        finally:
            for each in awaited:
                each.served.cancel()

    def _start(self, zone: str, server: ParentServer, name: str, desired: tuple[Record, ...]) -> _Awaited:
        awaited = _Awaited(name, desired, asyncio.get_running_loop().create_future())
        others = self._awaited.get((zone, server))
        if others is not None:
            others.append(awaited)
            return awaited
        self._awaited[zone, server] = [awaited]
        task = asyncio.create_task(self._poll(zone, server))
        self._polling.add(task)
        task.add_done_callback(self._polling.discard)
        return awaited

    async def _poll(self, zone: str, server: ParentServer) -> None:
        """Query a server for all names that are waited for, until none is left."""
        assert server.address is not None  # noqa: S101 - each secondary has one
        try:
            while waiting := [each for each in self._awaited[zone, server] if not each.served.done()]:
                self._awaited[zone, server] = waiting
                # Of two changes of a name, only the later one can be served.
                desired = {each.name: each.desired for each in waiting}
                try:
                    served = await read_back(
                        server.address, zone, desired, timeout_seconds=POLL_QUERY_SECONDS
                    )
                except ReadBackFailed:
                    served = {}
                for each in waiting:
                    is_served = each.name in served and matches(each.desired, served[each.name])
                    if is_served and not each.served.done():
                        each.served.set_result(None)
                await asyncio.sleep(POLL_SECONDS)
        finally:
            del self._awaited[zone, server]
