"""What the mailer sends through: what a transport is, and the one that only logs."""

from typing import Protocol

import structlog

from sublet.mail.model import Failure, Mail

log = structlog.get_logger()


class NotSent(Exception):  # noqa: N818 - what a server answers is no fault of ours
    """A mail was not sent, as far as can be known; `failure` says why."""

    def __init__(self, sentence: str, *, permanent: bool = False) -> None:
        super().__init__(sentence)
        self.failure = Failure(sentence, permanent=permanent)


class ServerAway(NotSent):
    """No mail at all can be sent now: the server can't be reached, is not the one that was meant, or does not let us in."""


class Transport(Protocol):
    """Where mail goes; called for one mail after the other. `delivers` tells whether it goes to anybody."""

    delivers: bool

    async def send(self, mail: Mail) -> None:
        """Send a mail; returns once somebody else answers for it.

        Raises:
            NotSent: it was not; ServerAway when no other would be either.
        """

    async def close(self) -> None:
        """End what was opened for the last mails; whatever is still under way is broken off."""


class LogTransport:
    """Tells the log which mail would have been sent: neither address nor text."""

    delivers = False

    async def send(self, mail: Mail) -> None:
        """Write a line."""
        log.info("mail_not_sent", mail_id=mail.id, reference=mail.reference, subject=mail.subject)

    async def close(self) -> None:
        """Nothing is open."""
