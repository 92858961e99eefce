"""The transports of mail: through an SMTP server (RFC 5321), to the log, or printed.

SMTP is the standard library's client on a thread. Each network operation of connecting and each whole mail
has a time limit. TLS certificates are verified against the system's authorities, or against the authorities
in SSL_CERT_FILE.
"""

import asyncio
import contextlib
import smtplib
import socket
import ssl
from collections.abc import Callable
from email.policy import SMTP, SMTPUTF8
from pathlib import Path
from typing import Any, Protocol

import structlog
from msgspec import Struct

from sublet.accounts.fields import canonical_address
from sublet.config import Settings, SettingsError, parse_mail_from
from sublet.mail.letter import compose, one_line
from sublet.mail.model import Failure, Mail
from sublet.secret import Secret

TIMEOUT_SECONDS = 20.0
"""The time limit of each network operation while connecting and quitting."""
CONNECTING_MAX_SECONDS = 60.0
"""The time limit for connecting: all addresses of the server, TLS and authentication together."""
SENDING_MAX_SECONDS = 180.0
"""The time limit of a mail over an open connection. It is long, because a server that scans a mail for longer
accepts it afterwards, and would get it again and again (RFC 5321, section 4.5.3.2.6). With
CONNECTING_MAX_SECONDS it must be below `model.LEASE`, the duration of a claim.
"""
REPLY_CHARACTERS_MAX = 300
log = structlog.get_logger()


class NotSent(Exception):  # noqa: N818 - a server's refusal is not an error in Sublet
    """A mail was not sent, or its acceptance by the server is unknown. `failure` has the reason."""

    def __init__(self, sentence: str, *, permanent: bool = False) -> None:
        super().__init__(sentence)
        self.failure = Failure(sentence, permanent=permanent)


class ServerAway(NotSent):
    """No mail can be sent now: the server can't be reached, has a wrong certificate, or refuses the login or
    the sender.
    """

    def __init__(self, sentence: str) -> None:
        super().__init__(sentence)
        self.failure = Failure(sentence, is_server_away=True)


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


class SmtpServer(Struct, frozen=True):
    """The configuration of the SMTP server.

    `security` is starttls, tls or none. Without `username` there is no authentication.
    """

    host: str
    port: int
    security: str
    username: str
    password_file: str
    sender_name: str
    sender: str


def smtp_server(settings: Settings) -> SmtpServer:
    """Return the SMTP server of the settings.

    Raises:
        SettingsError: the password file can't be read.
    """
    name, address = parse_mail_from(settings.mail_from)
    server = SmtpServer(
        host=settings.smtp_host,
        port=settings.smtp_port,
        security=settings.smtp_security,
        username=settings.smtp_username,
        password_file=settings.smtp_password_file,
        sender_name=name,
        sender=address,
    )
    if server.username:
        try:
            _password(server)
        except OSError as error:
            raise SettingsError(
                f"smtp_password_file: can't be read: {error.strerror or error}. Check the path and its "
                "permissions."
            ) from error
        except UnicodeDecodeError as error:
            raise SettingsError(
                "smtp_password_file: is not a text in UTF-8. Save it in this encoding."
            ) from error
    return server


class SmtpTransport:
    """Sends mails over one connection until `close`. The next mail opens a new connection."""

    delivers = True

    def __init__(self, server: SmtpServer) -> None:
        self._server = server
        self._client: smtplib.SMTP | None = None
        self._connecting: asyncio.Task[smtplib.SMTP] | None = None
        self._opening: smtplib.SMTP | None = None
        self._sending = False

    async def send(self, mail: Mail) -> None:
        """Send a mail. Returns when the server has accepted it.

        Raises:
            ServerAway: the connection, its encryption or the authentication failed, or the server refused
                the sender.
            NotSent: the server refused the mail, or stopped answering. Permanent if the server refused the
                recipient or the text with 5xx.
        """
        if self._client is None or self._client.sock is None:
            self._client = await self._open_client()
        self._sending = True
        try:
            async with asyncio.timeout(SENDING_MAX_SECONDS):
                await asyncio.to_thread(_send, self._client, mail, self._server)
        except TimeoutError:
            await self.close()
            raise NotSent("The mail server took too long.") from None
        except NotSent:
            self._sending = False
            raise
        self._sending = False
        log.info("mail_sent", mail_id=mail.id, reference=mail.reference, attempts=mail.attempts)

    async def _open_client(self) -> smtplib.SMTP:
        # A host may have many addresses, each with a timeout. The thread can't be stopped before the server
        # has accepted the connection, so the next attempt waits for this one.
        connecting = self._connecting
        if connecting is None or (connecting.done() and connecting.exception() is not None):
            self._opening = None
            connecting = asyncio.create_task(asyncio.to_thread(_connect, self._server, self._remember))
            self._connecting = connecting
        try:
            async with asyncio.timeout(CONNECTING_MAX_SECONDS):
                return await asyncio.shield(connecting)
        except TimeoutError:
            where = f"{self._server.host}:{self._server.port}"
            raise ServerAway(f"The mail server {where} can't be used: connecting took too long.") from None
        finally:
            if connecting.done():
                self._connecting = None

    def _remember(self, client: smtplib.SMTP) -> None:
        self._opening = client

    async def close(self) -> None:
        """Quit the session.

        While connecting, while a mail is being sent, or if cancelled, close the connection without QUIT.
        """
        if self._connecting is not None and self._opening is not None and self._opening.sock is not None:
            # A server that sends a little now and then keeps the thread for as long as it likes.
            _shut_down(self._opening)
            await asyncio.gather(self._connecting, return_exceptions=True)
            self._connecting = None
        client, self._client = self._client, None
        if client is None:
            return
        if self._sending:
            self._sending = False
            _shut_down(client)
            return
        # Shielded, because a task cancelled before its thread starts would leave the connection open.
        leaving = asyncio.create_task(asyncio.to_thread(_quit, client))
        try:
            await asyncio.shield(leaving)
        except asyncio.CancelledError:
            _shut_down(client)
            await leaving
            raise


def _password(server: SmtpServer) -> Secret:
    return Secret(Path(server.password_file).read_text(encoding="utf-8").strip("\r\n"))


class _Client(smtplib.SMTP):
    """A client that calls `on_connect` with itself before it connects, as its constructor does."""

    def __init__(self, *address: Any, on_connect: Callable[[smtplib.SMTP], None], **options: Any) -> None:
        self._on_connect = on_connect
        super().__init__(*address, **options)

    def connect(
        self, host: str = "localhost", port: int = 0, source_address: Any = None
    ) -> tuple[int, bytes]:
        """Connect, and return the code and the text of the greeting."""
        self._on_connect(self)
        return super().connect(host, port, source_address)


class _TlsClient(_Client, smtplib.SMTP_SSL):
    """A client with TLS from the first byte."""


def _connect(server: SmtpServer, on_connect: Callable[[smtplib.SMTP], None]) -> smtplib.SMTP:
    client: smtplib.SMTP | None = None
    try:
        context = ssl.create_default_context()
        address = server.host, server.port
        if server.security == "tls":
            client = _TlsClient(*address, on_connect=on_connect, timeout=TIMEOUT_SECONDS, context=context)
        else:
            client = _Client(*address, on_connect=on_connect, timeout=TIMEOUT_SECONDS)
        client.ehlo_or_helo_if_needed()
        if server.security == "starttls":
            client.starttls(context=context)
            client.ehlo_or_helo_if_needed()
        if server.username:
            client.login(server.username, _password(server).reveal())
        # Longer than the limit of the whole mail, which ends a mail first.
        _set_timeout(client, 2 * SENDING_MAX_SECONDS)
    except (OSError, smtplib.SMTPException, ValueError) as error:
        if client is not None:
            client.close()
        raise ServerAway(
            f"The mail server {server.host}:{server.port} can't be used: {_describe(error)}"
        ) from error
    return client


def _send(client: smtplib.SMTP, mail: Mail, server: SmtpServer) -> None:
    try:
        message = compose(mail, server.sender_name, server.sender)
        recipient = canonical_address(mail.recipient)
    except ValueError:  # also raised by `Address` of the standard library
        raise NotSent("No mail can be sent to this address.", permanent=True) from None
    policy, options = SMTP.clone(cte_type="7bit"), []
    if not recipient.isascii():
        if not client.has_extn("smtputf8"):
            raise NotSent("The mail server takes only ASCII addresses (no SMTPUTF8).", permanent=True)
        policy, options = SMTPUTF8.clone(cte_type="7bit"), ["SMTPUTF8", "BODY=8BITMIME"]
    try:
        client.sendmail(server.sender, [recipient], message.as_bytes(policy=policy), options)
    except smtplib.SMTPRecipientsRefused as error:
        code, reply = error.recipients[recipient]
        raise NotSent(
            f"The mail server refused the recipient: {_reply(code, reply)}", permanent=code >= 500
        ) from error
    except smtplib.SMTPDataError as error:
        raise NotSent(
            f"The mail server refused the mail: {_describe(error)}", permanent=error.smtp_code >= 500
        ) from error
    except smtplib.SMTPSenderRefused as error:
        # The cause is not this mail, but a limit of the server for its clients, or the setting `mail_from`.
        raise ServerAway(f"The mail server refused the sender: {_describe(error)}") from error
    except (OSError, smtplib.SMTPException) as error:
        client.close()
        raise NotSent(f"The connection to the mail server was lost: {_describe(error)}") from error


def _set_timeout(client: smtplib.SMTP, seconds: float) -> None:
    if client.sock is not None:
        client.sock.settimeout(seconds)


def _quit(client: smtplib.SMTP) -> None:
    try:
        _set_timeout(client, TIMEOUT_SECONDS)
        client.quit()
    except (OSError, smtplib.SMTPException):
        client.close()


def _shut_down(client: smtplib.SMTP) -> None:
    # Don't close the socket here: the thread that waits on it does.
    sock = client.sock
    if sock is not None:
        with contextlib.suppress(OSError):
            sock.shutdown(socket.SHUT_RDWR)


def _describe(error: Exception) -> str:
    if isinstance(error, smtplib.SMTPResponseException):
        return _reply(error.smtp_code, error.smtp_error)
    if isinstance(error, ssl.SSLCertVerificationError):
        return f"its certificate is invalid: {error.verify_message}"
    return one_line(str(error))[:REPLY_CHARACTERS_MAX] or type(error).__name__


def _reply(code: int, reply: bytes | str) -> str:
    text = reply.decode("utf-8", "replace") if isinstance(reply, bytes) else reply
    return f"{code} {one_line(text)}"[:REPLY_CHARACTERS_MAX]
