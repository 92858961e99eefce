"""The connection of a command: it gives up at once if nothing listens at the address, and says when the client tries again."""

from collections.abc import Callable
from typing import Any

import httpx2

from sublet_client._core import RETRIED
from sublet_client.exceptions import NotReached


class Connection(httpx2.Client):
    """An HTTP client that calls `tell` with a text for people when an attempt fails."""

    def __init__(self, tell: Callable[[str], None]) -> None:
        super().__init__()
        self._tell = tell
        self._was_reached = False

    def send(self, request: httpx2.Request, **options: Any) -> httpx2.Response:
        """Return the answer to a request.

        Raises:
            NotReached: there is no connection, and there was none before: a wrong address, rather than a restart.
        """
        address = f"{request.url.scheme}://{request.url.netloc.decode()}"
        try:
            answer = super().send(request, **options)
        except httpx2.ConnectError as error:
            if not self._was_reached:
                sentence = f"{address} can't be reached: {error}. Check the address and the network."
                raise NotReached(sentence) from error
            self._tell(f"{address} can't be reached. Retrying …")
            raise
        except httpx2.HTTPError:
            self._tell(f"{address} gave no answer. Retrying …")
            raise
        self._was_reached = True
        if answer.status_code in RETRIED:
            self._tell(f"{address} is busy. Retrying …")
        return answer
