"""The interface of the mailer's transports, and the transports that log or print mails."""

from typing import Protocol

import structlog

from sublet.mail.model import Failure, Mail

log = structlog.get_logger()


class NotSent(Exception):  # noqa: N818 - a server's refusal is not an error in Sublet
    """A mail was not sent, or its acceptance by the server is unknown. `failure` has the reason."""

    def __init__(self, sentence: str, *, permanent: bool = False) -> None:
        super().__init__(sentence)
        self.failure = Failure(sentence, permanent=permanent)


class ServerAway(NotSent):
    """No mail can be sent now: the server can't be reached, has a wrong certificate, or refuses the login."""


class Transport(Protocol):
    """Sends mails one after the other. `delivers` is false if mails don't reach the recipients."""

    delivers: bool

    async def send(self, mail: Mail) -> None:
        """Send a mail. Returns when the server has accepted the mail.

        Raises:
            NotSent: the server did not accept the mail.
            ServerAway: no mail can be sent now.
        """

    async def close(self) -> None:
        """Close the connection. Aborts a mail that is being sent."""


class LogTransport:
    """Logs each mail, without address and text, instead of sending it."""

    delivers = False

    async def send(self, mail: Mail) -> None:
        """Log the mail."""
        log.info("mail_not_sent", mail_id=mail.id, reference=mail.reference, subject=mail.subject)

    async def close(self) -> None:
        """Do nothing: there is no connection."""


class PrintTransport:
    """Prints each mail instead of sending it, for trials without a mail server."""

    delivers = False

    async def send(self, mail: Mail) -> None:
        """Print the mail to standard output."""
        print(f"\n-- a mail to {mail.recipient}: {mail.subject}\n{mail.text}", flush=True)  # noqa: T201 - its purpose

    async def close(self) -> None:
        """Do nothing: there is no connection."""
