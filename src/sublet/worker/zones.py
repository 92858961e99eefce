"""What the publisher knows of a zone: it can be sent a batch, and this is what may come of that."""

from collections.abc import Callable, Coroutine
from typing import Any, Protocol

from sublet.subdomains.publishing import Batch, Result


class BatchRefused(Exception):  # noqa: N818 - said by a name server of a batch, no fault of ours
    """A batch was refused whole, and nothing of it is in the zone: something in it can't be had, for this cause.

    An answer that is not signed may say so too ("refused", by Knot): it is sure once a later update has moved the fence.
    `was_sent` tells that a server refused it; otherwise it was not even asked.
    """

    def __init__(self, cause: str, detail: str, *, was_sent: bool = True) -> None:
        super().__init__(detail)
        self.cause = cause
        self.was_sent = was_sent


class BatchStale(Exception):  # noqa: N818 - as above
    """The zone has changed since the batch was begun, so nothing of it was applied: it is to be begun anew."""


ReadBack = Callable[[], Coroutine[Any, Any, list[Result]]]
"""Reads back what is served after a change, and tells what came of each name; those of which something newer waits are left out.

Raises PrimaryFault where nothing can be read back, Unavailable.
"""


class Zone(Protocol):
    """A zone on whatever name server it stands."""

    async def change(self, batch: Batch) -> ReadBack:
        """Change the zone by a batch; return what reads it back. Other names may be sent before that is done.

        Raises:
            BatchRefused: nothing was applied; halves of the batch may be.
            BatchStale: nothing was applied; the same batch begun anew may be.
            PrimaryFault: nothing can be published in this zone now; whether the batch was applied is not known.
            Unavailable: the database can't be used.
        """
