"""The transports of the mailer: their interface, and the one that only logs."""

from typing import Protocol

import structlog

from sublet.mail.model import Failure, Mail

log = structlog.get_logger()


class NotSent(Exception):  # noqa: N818 - a server's refusal is not an error in Sublet
    """A mail was probably not sent; `failure` says why."""

    def __init__(self, sentence: str, *, permanent: bool = False) -> None:
        super().__init__(sentence)
        self.failure = Failure(sentence, permanent=permanent)


class ServerAway(NotSent):
    """No mail can be sent now: the server can't be reached, is the wrong one, or refuses the login."""


class Transport(Protocol):
    """A way to send mail, one after the other. `delivers` is false if it delivers to no recipient."""

    delivers: bool

    async def send(self, mail: Mail) -> None:
        """Send a mail. Returns when it has been handed over.

        Raises:
            NotSent: it was not handed over; ServerAway if no other mail would be either.
        """

    async def close(self) -> None:
        """Close the connection. Aborts a mail that is being sent."""


class LogTransport:
    """Logs each mail instead of sending it, without address and text."""

    delivers = False

    async def send(self, mail: Mail) -> None:
        """Log the mail."""
        log.info("mail_not_sent", mail_id=mail.id, reference=mail.reference, subject=mail.subject)

    async def close(self) -> None:
        """Do nothing: there is no connection."""


class PrintTransport:
    """Prints each mail instead of sending it, to try things out without a mail server."""

    delivers = False

    async def send(self, mail: Mail) -> None:
        """Print the mail to standard output."""
        print(f"\n-- a mail to {mail.recipient}: {mail.subject}\n{mail.text}", flush=True)  # noqa: T201 - its purpose

    async def close(self) -> None:
        """Do nothing: there is no connection."""
