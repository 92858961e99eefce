"""How the two clients send and wait. Everything else about a call is in `_core`."""

import asyncio
import time
from typing import TypeVar

import httpx2

from sublet_client._core import Call, Config, Reply, Send, attempts, no_answer

T = TypeVar("T")
Http = TypeVar("Http", httpx2.Client, httpx2.AsyncClient)


def http_of(kind: type[Http]) -> Http:
    """Return an HTTP client with the proxy and the certificates of the environment.

    Raises:
        ValueError: they can't be used.
    """
    try:
        return kind()
    except (ImportError, OSError, ValueError) as error:
        raise ValueError(
            "The proxy or the certificates of the environment (HTTPS_PROXY, ALL_PROXY, SSL_CERT_FILE, "
            f"SSL_CERT_DIR) can't be used: {error}"
        ) from error


class _Transport:
    """What both transports know: where the service is, and whether a request may have reached it."""

    def __init__(self, config: Config) -> None:
        self._config = config
        self.base_url = config.base_url
        self._may_have_reached = False

    def _reply(self, answer: httpx2.Response, content: bytes) -> Reply:
        self._may_have_reached = True
        headers = {name.lower(): value for name, value in answer.headers.items()}
        return Reply(answer.status_code, headers, content)

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
        until = time.monotonic() + step.timeout_seconds
        content = bytearray()
        try:
            with self._http.stream(
                step.method,
                step.url,
                params=dict(step.query),
                headers=dict(step.headers),
                content=step.content,
                timeout=step.timeout_seconds,
            ) as answer:
                for part in answer.iter_bytes():
                    content += part
                    _refuse_late(until)
        except httpx2.HTTPError as error:
            return self._prevented(error)
        return self._reply(answer, bytes(content))


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
        until = time.monotonic() + step.timeout_seconds
        content = bytearray()
        try:
            async with self._http.stream(
                step.method,
                step.url,
                params=dict(step.query),
                headers=dict(step.headers),
                content=step.content,
                timeout=step.timeout_seconds,
            ) as answer:
                async for part in answer.aiter_bytes():
                    content += part
                    _refuse_late(until)
        except httpx2.HTTPError as error:
            return self._prevented(error)
        return self._reply(answer, bytes(content))


def _refuse_late(until: float) -> None:
    """Raise ReadTimeout after an instant: the timeout of the HTTP client is for each part of an answer."""
    if time.monotonic() > until:
        raise httpx2.ReadTimeout("the answer is too slow")
