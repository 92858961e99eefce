"""How the two clients send and wait. Everything else about a call is in `_core`."""

import asyncio
import time
from typing import TypeVar

import httpx2

from sublet_client._core import Call, Config, Reply, Send, attempts, no_answer

T = TypeVar("T")


class _Transport:
    """What both transports know: where the service is, and whether a request may have reached it."""

    def __init__(self, config: Config) -> None:
        self._config = config
        self.base_url = config.base_url
        self._may_have_reached = False

    def _reply(self, answer: httpx2.Response) -> Reply:
        self._may_have_reached = True
        headers = {name.lower(): value for name, value in answer.headers.items()}
        return Reply(answer.status_code, headers, answer.content)

    def _prevented(self, error: httpx2.HTTPError) -> Exception:
        """Return what prevented an answer, without what was sent: the error of a malformed request quotes its
        headers.

        Raises:
            NotReached: there is no connection, and this client had none before: a wrong address, rather than
                a restart.
        """
        if isinstance(error, httpx2.ConnectError):
            if self._may_have_reached:
                return error
            raise no_answer(self._config, error) from error
        self._may_have_reached = True  # perhaps, and then a change may have been made
        if isinstance(error, httpx2.LocalProtocolError):
            return ConnectionError("the request could not be written")
        return error


class SyncTransport(_Transport):
    """Sends calls over connections that it keeps, from one thread or several."""

    def __init__(self, config: Config, http: httpx2.Client) -> None:
        super().__init__(config)
        self._http = http

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
        try:
            answer = self._http.request(
                step.method,
                step.url,
                params=dict(step.query),
                headers=dict(step.headers),
                content=step.content,
                timeout=step.timeout_seconds,
            )
        except httpx2.HTTPError as error:
            return self._prevented(error)
        return self._reply(answer)


class AsyncTransport(_Transport):
    """Sends calls over connections that it keeps, on the event loop."""

    def __init__(self, config: Config, http: httpx2.AsyncClient) -> None:
        super().__init__(config)
        self._http = http

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
        try:
            answer = await self._http.request(
                step.method,
                step.url,
                params=dict(step.query),
                headers=dict(step.headers),
                content=step.content,
                timeout=step.timeout_seconds,
            )
        except httpx2.HTTPError as error:
            return self._prevented(error)
        return self._reply(answer)
