"""The built-in authoritative name server, over UDP and TCP. `answer.py` makes its responses.

The server is for trials and small installations; larger ones publish to a primary. It caches no zone data:
each batch of queries reads the zones after the queries have arrived. Listen on each address of a host instead
of 0.0.0.0, with which the kernel chooses the source address of UDP responses.
"""

import asyncio
from collections.abc import Awaitable, Callable, Collection, Coroutine, Mapping, Sequence
from itertools import zip_longest

import dns.opcode
import dns.rcode
import structlog

from sublet.dns.answer import alias_targets, answer, refusal_rcode
from sublet.dns.listener import Listener
from sublet.dns.notify import NotifyLimit, answer_notify, is_notify
from sublet.dns.query import QUERY_BYTES_MAX, Query, read_query
from sublet.dns.response_limit import ResponseLimit, network_of
from sublet.dns.types import ZoneView
from sublet.dns.wire import HEADER_BYTES
from sublet.dns.write_response import Response, bare_response, header_response, truncated_response
from sublet.errors import Unavailable

ReadZones = Callable[[Collection[str]], Awaitable[Mapping[str, ZoneView]]]
"""Returns the view of each query name that is in a zone of ours, by name.

The names are in lower case, without the final dot, with unusual octets as `\\ddd`.
"""

OnNotify = Callable[[str], Coroutine[None, None, None]]
"""Handles a NOTIFY message about a child, in the background."""
FindFollowed = Callable[[Collection[str]], Awaitable[Mapping[str, str]]]
"""Returns the zone of each of these children whose requests are followed, by child."""
NOTIFIES_MAX = 100
"""The maximum number of NOTIFY messages that are handled at the same time."""
READ_SECONDS = 5.0
"""The timeout of reading the views. At the timeout the client gets SERVFAIL; most resolvers have given up
earlier.
"""

ALIASES_MAX = 8
"""The maximum number of CNAME records in a row that a response follows. The client asks for the rest."""

log = structlog.get_logger(__name__)


class NameServer:
    """A name server on any number of addresses.

    For the metrics, `on_answer` is called with the rcode of each response (for example "NOERROR"), and
    `on_limited` for each response that the rate limit truncates. `on_notify` is called for each NOTIFY
    message about a child that `find_followed` returns. Without `find_followed`, all children are followed, in
    one zone.
    """

    def __init__(
        self,
        read_zones: ReadZones,
        *,
        on_answer: Callable[[str], None] = lambda _rcode: None,
        on_limited: Callable[[], None] = lambda: None,
        on_notify: OnNotify | None = None,
        find_followed: FindFollowed | None = None,
    ) -> None:
        self._read_zones = read_zones
        self._on_answer = on_answer
        self._on_limited = on_limited
        self._on_notify = on_notify
        self._find_followed = find_followed
        self._notify_limit = NotifyLimit()
        self._notified: set[asyncio.Task[None]] = set()
        self._limit = ResponseLimit()
        self._listener = Listener(self._reply)

    async def start(self, host: str, port: int) -> int:
        """Listen on an IP address over UDP and TCP, and return the port, as `Listener.start`.

        May be called for several addresses.
        """
        return await self._listener.start(host, port)

    async def close(self) -> None:
        """Stop listening, close all connections, and wait for their end.

        Queries in progress get no response.
        """
        await self._listener.close()
        for task in self._notified:
            task.cancel()
        await asyncio.gather(*self._notified, return_exceptions=True)

    async def _reply(
        self, wires: Sequence[bytes], hosts: Sequence[str] = (), *, over_tcp: bool
    ) -> list[bytes | None]:
        """Return the responses to a batch of messages: None for a message that is itself a response, or
        shorter than a header.

        `hosts` are the source addresses of the messages, in the same order. Without them, and over TCP, no
        response is limited.
        """
        if over_tcp:
            hosts = ()
        notified = await self._answer_notifies(wires, hosts)
        queries = [response or _read_message(wire) for response, wire in zip(notified, wires, strict=True)]
        names = {each.name for each in queries if isinstance(each, Query) and refusal_rcode(each) is None}
        views = await self._read_views(names) if names else {}
        replies: list[bytes | None] = []
        for query, host in zip_longest(queries, hosts):
            response: Response | None
            if isinstance(query, Query):
                response = _answer_or_servfail(query, views, over_tcp=over_tcp)
                if host is not None and self._is_limited(host, response):
                    response = truncated_response(query, response)
                    self._on_limited()
            else:
                response = query
            if response is not None:
                self._on_answer(dns.rcode.to_text(response.rcode))
            replies.append(response.wire if response is not None else None)
        return replies

    async def _answer_notifies(self, wires: Sequence[bytes], hosts: Sequence[str]) -> list[Response | None]:
        """Return the response to each NOTIFY message, and start the background tasks of followed children.

        Return None for other messages.
        """
        if self._on_notify is None or not any(is_notify(wire) for wire in wires):
            return [None] * len(wires)
        answers = [answer_notify(wire) if is_notify(wire) else (None, None) for wire in wires]
        zones = await self._find_zones({child for _, child in answers if child is not None})
        now_seconds = asyncio.get_running_loop().time()
        responses: list[Response | None] = []
        for wire, (response, child), host in zip_longest(wires, answers, hosts):
            if child is not None and child in zones:
                network = () if host is None else (network_of(host),)
                if self._notify_limit.count_message((zones[child], *network), now_seconds):
                    responses.append(header_response(wire, dns.rcode.REFUSED))
                    continue
                if len(self._notified) < NOTIFIES_MAX:
                    task = asyncio.create_task(self._on_notify(child))
                    self._notified.add(task)
                    task.add_done_callback(self._notified.discard)
            responses.append(response)
        return responses

    async def _find_zones(self, children: Collection[str]) -> Mapping[str, str]:
        """Return the zones of the followed children.

        If they can't be read, return none: the daily check finds the changes.
        """
        if self._find_followed is None:
            return dict.fromkeys(children, "")
        try:
            async with asyncio.timeout(READ_SECONDS):
                return await self._find_followed(children) if children else {}
        except (TimeoutError, Unavailable) as error:
            log.error("nameserver_notify_failed", names=sorted(children), error=_describe(error))  # noqa: TRY400
            return {}
        except Exception:
            log.exception("nameserver_notify_failed", names=sorted(children))
            return {}

    def _is_limited(self, host: str, response: Response) -> bool:
        """Count a UDP response, and return True if it must be truncated.

        A response without records amplifies nothing, and isn't counted.
        """
        now_seconds = asyncio.get_running_loop().time()
        return bool(response.about) and self._limit.count_response(
            host, response.rcode, response.about, now_seconds
        )

    async def _read_views(self, names: Collection[str]) -> Mapping[str, ZoneView] | None:
        """Return the views of names and of the targets of their aliases, by name; None if the zones can't be
        read.
        """
        views: dict[str, ZoneView] = {}
        wanted = set(names)
        try:
            async with asyncio.timeout(READ_SECONDS):
                for _ in range(1 + ALIASES_MAX):
                    found = await self._read_zones(wanted)
                    views |= found
                    wanted = {name for view in found.values() for name in alias_targets(view)} - views.keys()
                    if not wanted:
                        break
        except (TimeoutError, Unavailable) as error:
            log.error("nameserver_query_failed", names=sorted(names), error=_describe(error))  # noqa: TRY400
            return None
        except Exception:
            log.exception("nameserver_query_failed", names=sorted(names))
            return None
        return views


def _describe(error: TimeoutError | Unavailable) -> str:
    """Return why the database was not read. The log gets no trace, because each query would write one."""
    return str(error) or f"The database didn't answer within {READ_SECONDS:g} s."


def _read_message(wire: bytes) -> Query | Response | None:
    """Return the query in a message, or the response to a malformed message; None if the message gets no
    response.
    """
    if len(wire) < HEADER_BYTES or wire[2] & 0x80:
        return None
    if (wire[2] >> 3) & 0xF != dns.opcode.QUERY:
        return header_response(wire, dns.rcode.NOTIMP)
    if len(wire) > QUERY_BYTES_MAX:
        return header_response(wire, dns.rcode.FORMERR)
    try:
        return read_query(wire)
    except Exception:  # noqa: BLE001 - only a malformed message raises here
        return header_response(wire, dns.rcode.FORMERR)


def _answer_or_servfail(query: Query, views: Mapping[str, ZoneView] | None, *, over_tcp: bool) -> Response:
    """Return the response to a query: SERVFAIL if the zones couldn't be read (`views` is None), or if
    answering raises.
    """
    if views is None and refusal_rcode(query) is None:
        return bare_response(query, dns.rcode.SERVFAIL)
    try:
        return answer(query, views or {}, over_tcp=over_tcp)
    except Exception:
        log.exception("nameserver_query_failed", names=[query.name])
        return bare_response(query, dns.rcode.SERVFAIL)
