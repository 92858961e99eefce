"""How the two clients send and wait. Everything else about a call is in `_core`."""

import asyncio
import time
from typing import TypeVar

import httpx2

from sublet_client._core import Call, Config, Reply, Send, attempts, no_answer

T = TypeVar("T")


class SyncTransport:
    """Sends calls over connections that it keeps, from one thread or several."""

    def __init__(self, config: Config, http: httpx2.Client) -> None:
        self._config = config
        self._http = http
        self._may_have_reached = False

    def run(self, call: Call[T]) -> T:
        """Return the result of a call; raises as `attempts`."""
        running = attempts(call, self._config, time.monotonic)
        step = next(running)
        while True:
            try:
                if isinstance(step, Send):
                    step = running.send(self._send(step))
                else:
                    time.sleep(step.seconds)
                    step = next(running)
            except StopIteration as end:
                result: T = end.value
                return result

    def close(self) -> None:
        """Close the connections."""
        self._http.close()

    def _send(self, step: Send) -> Reply | Exception:
        """Return the answer, or what prevented one.

        Raises:
            NotReached: there is no connection, and this client had none before: a wrong address, rather than a restart.
        """
        try:
            answer = self._http.request(
                step.method,
                step.url,
                params=dict(step.query),
                headers=dict(step.headers),
                content=step.content,
                timeout=step.timeout_seconds,
            )
        except httpx2.ConnectError as error:
            if self._may_have_reached:
                return error
            raise no_answer(self._config, error) from error
        except httpx2.HTTPError as error:
            self._may_have_reached = True  # perhaps, and then a change may have been made
            return _shown(error)
        self._may_have_reached = True
        return _reply(answer)


class AsyncTransport:
    """Sends calls over connections that it keeps, on the event loop."""

    def __init__(self, config: Config, http: httpx2.AsyncClient) -> None:
        self._config = config
        self._http = http
        self._may_have_reached = False

    async def run(self, call: Call[T]) -> T:
        """Return the result of a call; raises as `attempts`."""
        running = attempts(call, self._config, time.monotonic)
        step = next(running)
        while True:
            try:
                if isinstance(step, Send):
                    step = running.send(await self._send(step))
                else:
                    await asyncio.sleep(step.seconds)
                    step = next(running)
            except StopIteration as end:
                result: T = end.value
                return result

    async def close(self) -> None:
        """Close the connections."""
        await self._http.aclose()

    async def _send(self, step: Send) -> Reply | Exception:
        """Return the answer, or what prevented one.

        Raises:
            NotReached: there is no connection, and this client had none before: a wrong address, rather than a restart.
        """
        try:
            answer = await self._http.request(
                step.method,
                step.url,
                params=dict(step.query),
                headers=dict(step.headers),
                content=step.content,
                timeout=step.timeout_seconds,
            )
        except httpx2.ConnectError as error:
            if self._may_have_reached:
                return error
            raise no_answer(self._config, error) from error
        except httpx2.HTTPError as error:
            self._may_have_reached = True  # perhaps, and then a change may have been made
            return _shown(error)
        self._may_have_reached = True
        return _reply(answer)


def _shown(error: httpx2.HTTPError) -> Exception:
    """Return an error without what was sent: that of a malformed request quotes its headers."""
    if isinstance(error, httpx2.LocalProtocolError):
        return ConnectionError("the request could not be written")
    return error


def _reply(answer: httpx2.Response) -> Reply:
    return Reply(
        answer.status_code, {name.lower(): value for name, value in answer.headers.items()}, answer.content
    )
