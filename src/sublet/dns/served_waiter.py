"""Wait until the secondaries of a zone answer with a changed name, with one query loop a server for all
waiting requests.
"""

import asyncio
from collections.abc import Iterable, Sequence

from msgspec import Struct

from sublet.dns.difference import matches
from sublet.dns.parent_servers import ParentServer
from sublet.dns.read_back import ReadBackFailed, read_back
from sublet.dns.types import Record

POLL_SECONDS = 0.1
"""The pause between two queries to a server."""
QUERY_SECONDS = 2.0
"""The timeout of the queries to a server."""


class _Awaited(Struct, frozen=True, eq=False):
    name: str
    desired: tuple[Record, ...]
    served: asyncio.Future[None]


class ServedWaiter:
    """The requests that wait until a zone's secondaries serve their changes.

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
                    served = await read_back(server.address, zone, desired, timeout_seconds=QUERY_SECONDS)
                except ReadBackFailed:
                    served = {}
                for each in waiting:
                    is_served = each.name in served and matches(each.desired, served[each.name])
                    if is_served and not each.served.done():
                        each.served.set_result(None)
                await asyncio.sleep(POLL_SECONDS)
        finally:
            del self._awaited[zone, server]
