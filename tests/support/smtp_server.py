"""A real SMTP server for tests. It stores the mails, and a test chooses its answers."""

# ruff: noqa: ARG002, N802 - the library defines the names and parameters of handle_…
import asyncio
import ipaddress
import ssl
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from email import message_from_bytes
from email.message import EmailMessage
from email.policy import default
from pathlib import Path
from typing import Any, cast

from aiosmtpd.controller import Controller
from aiosmtpd.smtp import SMTP, AuthResult, Envelope, LoginPassword, Session
from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.x509.oid import NameOID

from support.free_ports import free_address

USERNAME, PASSWORD = "sublet", "correct horse"


def text_of(message: EmailMessage) -> str:
    """Return the plain text of a message."""
    part = message.get_body(("plain",))
    assert part is not None
    return str(part.get_content())


@dataclass
class Mailbox:
    """The received mails in order, and the server's answers.

    `replies_mail`, `replies_rcpt` (for a recipient) and `replies_data` are the next replies, then 250.
    `scan_seconds` is the time before the reply to a mail's text.
    """

    replies_mail: list[str] = field(default_factory=list)
    replies_rcpt: dict[str, list[str]] = field(default_factory=dict)
    replies_data: list[str] = field(default_factory=list)
    scan_seconds: float = 0.0
    taken: list[Envelope] = field(default_factory=list)
    connections: int = 0
    _lock: threading.Lock = field(default_factory=threading.Lock)

    async def handle_EHLO(
        self, server: SMTP, session: Session, envelope: Envelope, hostname: str, responses: list[str]
    ) -> list[str]:
        if not session.ssl or not session.host_name:
            self.connections += 1
        session.host_name = hostname
        return responses

    async def handle_MAIL(
        self, server: SMTP, session: Session, envelope: Envelope, address: str, options: list[str]
    ) -> str:
        if self.replies_mail:
            return self.replies_mail.pop(0)
        envelope.mail_from = address
        return "250 OK"

    async def handle_RCPT(
        self, server: SMTP, session: Session, envelope: Envelope, address: str, options: list[str]
    ) -> str:
        waiting = self.replies_rcpt.get(address, [])
        if waiting:
            return waiting[0] if len(waiting) == 1 else waiting.pop(0)
        envelope.rcpt_tos.append(address)
        return "250 OK"

    async def handle_DATA(self, server: SMTP, session: Session, envelope: Envelope) -> str:
        if self.replies_data:
            return self.replies_data.pop(0)
        with self._lock:
            self.taken.append(envelope)
        await asyncio.sleep(self.scan_seconds)
        return "250 taken"

    def messages(self) -> list[EmailMessage]:
        """The received messages, parsed."""
        return [message_from_bytes(cast("bytes", each.content), policy=default) for each in self.taken]

    def recipients(self) -> list[str]:
        """The recipients of the messages, in order."""
        return [str(address) for each in self.taken for address in each.rcpt_tos]


def _authenticate(_server: Any, _session: Any, _envelope: Any, _mechanism: str, data: Any) -> AuthResult:
    good = isinstance(data, LoginPassword) and (data.login, data.password) == (
        USERNAME.encode(),
        PASSWORD.encode(),
    )
    return AuthResult(success=good, handled=good)


@contextmanager
def smtp_server(
    mailbox: Mailbox,
    *,
    port: int | None = None,
    certificate: Path | None = None,
    tls: bool = False,
    auth: bool = False,
) -> Iterator[int]:
    """Run a server on loopback, and yield its port.

    With a certificate it requires STARTTLS, or TLS from the first byte.
    """
    context = None
    if certificate is not None:
        context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
        context.load_cert_chain(certificate)
    starttls = context if not tls else None
    controller = Controller(
        mailbox,
        hostname="127.0.0.1",
        port=port or free_address()[1],
        ssl_context=context if tls else None,
        tls_context=starttls,
        require_starttls=starttls is not None,
        authenticator=_authenticate if auth else None,
        auth_required=auth,
        auth_require_tls=starttls is not None,
        enable_SMTPUTF8=True,
        ready_timeout=60,
    )
    controller.start()
    try:
        yield int(controller.port)
    finally:
        controller.stop()


def make_certificate(folder: Path, host: str = "localhost") -> Path:
    """Write a self-signed certificate, valid for an hour, and its key to one file."""
    key = ec.generate_private_key(ec.SECP256R1())
    name = x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, host)])
    now = datetime.now(UTC)
    names: list[x509.GeneralName] = [x509.DNSName(host)]
    if host == "localhost":
        names.append(x509.IPAddress(ipaddress.ip_address("127.0.0.1")))
    certificate = (
        x509.CertificateBuilder()
        .subject_name(name)
        .issuer_name(name)
        .public_key(key.public_key())
        .serial_number(x509.random_serial_number())
        .not_valid_before(now - timedelta(minutes=5))
        .not_valid_after(now + timedelta(hours=1))
        .add_extension(x509.SubjectAlternativeName(names), critical=False)
        .add_extension(x509.BasicConstraints(ca=True, path_length=None), critical=True)
        .sign(key, hashes.SHA256())
    )
    path = folder / f"{host}.pem"
    path.write_bytes(
        certificate.public_bytes(serialization.Encoding.PEM)
        + key.private_bytes(
            serialization.Encoding.PEM,
            serialization.PrivateFormat.PKCS8,
            serialization.NoEncryption(),
        )
    )
    return path
