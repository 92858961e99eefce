"""The mailer with a real SMTP server: received mails, retries, and mails that must not delay others."""

import asyncio
import socket
import threading
import time
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager, suppress
from datetime import datetime, timedelta
from pathlib import Path

import pytest
import structlog

from sublet.accounts.store import find_user
from sublet.audit import SYSTEM
from sublet.config import Settings, SettingsError
from sublet.db import Database, Tx, open_database
from sublet.mail import mailer as mailer_module
from sublet.mail import smtp, store
from sublet.mail.letter import Message
from sublet.mail.mailer import Mailer
from sublet.mail.model import LEASE, Mail
from sublet.mail.outbox import enqueue
from sublet.mail.smtp import LogTransport, SmtpTransport
from sublet.primaries.zone_notices import notify_of_zone_problem
from sublet.subdomains.sweep.brake import stop_sweep
from sublet.tickets.model import TicketRequest
from sublet.tickets.open_ticket import open_ticket
from sublet.tickets.reply import reply
from support.free_ports import free_address
from support.postgresql import fresh_database
from support.registry import Prepared, Registry, open_registry
from support.smtp_server import PASSWORD, USERNAME, Mailbox, make_certificate, smtp_server, text_of
from support.waiting import wait_until

SENDER = "Namen <names@example.net>"


def put(
    registry: Registry,
    *references: str,
    recipient: str | None = None,
    text: str = "T",
    subject: str = "S",
    expires_at: datetime | None = None,
) -> None:
    def verb(tx: Tx) -> None:
        user = find_user(tx, registry.users["ann"])
        assert user is not None
        for each in references:
            message = Message(subject, text)
            enqueue(tx, user, message, reference=each, recipient=recipient, expires_at=expires_at)

    registry.write(verb)


def all_mails(tx: Tx) -> list[Mail]:
    return store.list_mails(tx, waiting=False, user_id=None, limit=100)


def states_of(found: list[Mail]) -> list[str]:
    return [each.state for each in found]


def mails(registry: Registry) -> dict[str, Mail]:
    return {each.reference: each for each in registry.read(all_mails)}


def states(registry: Registry) -> dict[str, str]:
    return {reference: each.state for reference, each in mails(registry).items()}


def mailer_to(registry: Registry, port: int, **settings: str) -> Mailer:
    chosen = {"smtp_host": "127.0.0.1", "smtp_security": "none", "mail_from": SENDER, **settings}
    wanted = Settings(mail_transport="smtp", smtp_port=port, **chosen)  # type: ignore[arg-type] # texts all
    return Mailer(registry.db, SmtpTransport(smtp.smtp_server(wanted)), operator_mail=wanted.operator_mail)


@pytest.fixture(autouse=True)
def _long_pauses(monkeypatch: pytest.MonkeyPatch) -> None:
    """Make the mailer's pauses so long that none ends before `send` ends it."""
    monkeypatch.setattr(mailer_module, "BACK_OFF_MIN_SECONDS", mailer_module.BACK_OFF_MAX_SECONDS)


def send(registry: Registry, mailer: Mailer) -> bool:
    mailer._away_until = 0.0  # the pause of the real clock
    done: bool = registry.run(mailer.send_due())
    return done


def test_mails_arrive_over_one_connection_and_read_as_written(registry: Registry) -> None:
    mailbox = Mailbox()
    text = "Grüße aus Москва 🎉\n.\n..zwei Punkte\nFrom here\n" + "lang " * 500 + "\n"
    put(registry, "a", text=text, subject="Über «Namen» 🎉")
    put(registry, "b", "c", recipient="bob@bücher.example")
    with smtp_server(mailbox) as port:
        mailer = mailer_to(registry, port)
        assert send(registry, mailer)
        assert not send(registry, mailer)
    assert mailbox.connections == 1
    assert mailbox.recipients() == ["ann@example.org", *["bob@xn--bcher-kva.example"] * 2]
    first = mailbox.messages()[0]
    assert text_of(first).splitlines() == text.splitlines()
    assert (first["Subject"], first["To"]) == ("Über «Namen» 🎉", "ann@example.org")
    assert first["From"] == SENDER
    assert first["Auto-Submitted"] == "auto-generated"
    assert first["Date"].datetime == registry.now.replace(microsecond=0)
    assert {str(each.mail_from) for each in mailbox.taken} == {"names@example.net"}
    assert len({each["Message-ID"] for each in mailbox.messages()}) == 3
    assert set(states(registry).values()) == {"sent"}
    assert mailer.outcomes == {"sent": 3}


def test_the_operators_notices_arrive_as_one_mail(registry: Registry) -> None:
    mailbox = Mailbox()
    asked = TicketRequest(subject="https://evil.example", message="URGENT: mail ada@evil.example")
    ticket = registry.write(open_ticket, registry.actor(), asked)
    registry.write(reply, registry.actor(), str(ticket.id), "Still waiting.")
    registry.write(stop_sweep, SYSTEM, "The clock jumped.")
    registry.write(
        notify_of_zone_problem, registry.domains["example.test"], "unreachable", "no answer from 192.0.2.1"
    )
    put(registry, "refused", recipient="nobody@example.net")
    mailbox.replies_rcpt["nobody@example.net"] = ["550 no such user"]
    with smtp_server(mailbox) as port:
        mailer = mailer_to(registry, port, operator_mail="operator@example.net")
        send(registry, mailer)
        assert mailbox.recipients() == []
        registry.run(mailer.mail_operator())
        send(registry, mailer)
    assert mailbox.recipients() == ["operator@example.net"]
    (mail,) = mailbox.messages()
    assert mail["Subject"] == (
        "[Sublet] 1 stop of the sweep, 1 zone problem, 1 failed mail, 1 new ticket, 1 reply to a ticket"
    )
    text = text_of(mail)
    assert "> URGENT: mail ada[at]evil[.]example" in text
    assert all(each in text for each in ("The clock jumped.", "no answer from 192.0.2.1", "Still waiting."))
    assert "evil.example" not in text


def test_a_non_ascii_address_needs_a_server_with_smtputf8(registry: Registry) -> None:
    mailbox = Mailbox()
    put(registry, "a", recipient="ädä@example.org")
    with smtp_server(mailbox) as port:
        send(registry, mailer_to(registry, port))
    assert mailbox.recipients() == ["ädä@example.org"], mails(registry)["a"].error
    assert mailbox.messages()[0]["To"] == "ädä@example.org"


def test_starttls_and_password(registry: Registry, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    certificate = make_certificate(tmp_path)
    monkeypatch.setenv("SSL_CERT_FILE", str(certificate))
    (tmp_path / "password").write_text(f"{PASSWORD}\n")
    mailbox = Mailbox()
    put(registry, "a")
    with smtp_server(mailbox, certificate=certificate, auth=True) as port:
        secured = {
            "smtp_host": "localhost",
            "smtp_security": "starttls",
            "smtp_username": USERNAME,
            "smtp_password_file": str(tmp_path / "password"),
        }
        (tmp_path / "wrong").write_text("wrong")
        wrong = mailer_to(registry, port, **{**secured, "smtp_password_file": str(tmp_path / "wrong")})
        send(registry, wrong)
        error = mails(registry)["a"].error
        assert error is not None
        assert "535" in error
        assert "wrong" not in error
        registry.advance(minutes=1)
        send(registry, mailer_to(registry, port, **secured))
    assert mailbox.recipients() == ["ann@example.org"]
    with pytest.raises(SettingsError, match="smtp_password_file: can't be read"):
        mailer_to(registry, port, **{**secured, "smtp_password_file": str(tmp_path / "missing")})
    (tmp_path / "latin-1").write_bytes("ä".encode("latin-1"))
    with pytest.raises(SettingsError, match="smtp_password_file: is not a text in UTF-8"):
        mailer_to(registry, port, **{**secured, "smtp_password_file": str(tmp_path / "latin-1")})


def test_implicit_tls(registry: Registry, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    certificate = make_certificate(tmp_path)
    monkeypatch.setenv("SSL_CERT_FILE", str(certificate))
    mailbox = Mailbox()
    put(registry, "a")
    with smtp_server(mailbox, certificate=certificate, tls=True) as port:
        send(registry, mailer_to(registry, port, smtp_host="localhost", smtp_security="tls"))
    assert mailbox.recipients() == ["ann@example.org"]


@pytest.mark.parametrize("trusted", ["unknown authority", "another host"])
def test_an_invalid_certificate_is_refused(
    registry: Registry, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, trusted: str
) -> None:
    good = make_certificate(tmp_path)
    shown = make_certificate(tmp_path, "mail.example.net")
    monkeypatch.setenv("SSL_CERT_FILE", str(good if trusted == "unknown authority" else shown))
    mailbox = Mailbox()
    put(registry, "a")
    with smtp_server(mailbox, certificate=shown) as port:
        send(registry, mailer_to(registry, port, smtp_host="localhost", smtp_security="starttls"))
    assert mailbox.taken == []
    found = mails(registry)["a"]
    assert found.state == "waiting"
    assert found.error is not None
    assert "its certificate is invalid" in found.error


def test_nothing_is_sent_without_starttls(registry: Registry) -> None:
    mailbox = Mailbox()
    put(registry, "a")
    with smtp_server(mailbox) as port:
        send(registry, mailer_to(registry, port, smtp_security="starttls"))
    assert mailbox.taken == []
    assert states(registry) == {"a": "waiting"}


def test_a_rejected_mail_does_not_delay_other_mails(registry: Registry) -> None:
    """A 4xx reply is retried and then accepted; 5xx is retried for three days; other mails arrive at once."""
    mailbox = Mailbox(
        replies_rcpt={
            "grey@example.org": ["451 4.7.1 come back later", "250 OK"],
            "gone@example.org": ["550 5.1.1 <gone@example.org>: no such user"],
        }
    )
    put(registry, "grey", recipient="grey@example.org")
    put(registry, "gone", recipient="gone@example.org")
    put(registry, "broken", recipient="no address at all")
    put(registry, "good")
    with smtp_server(mailbox) as port:
        mailer = mailer_to(registry, port)
        send(registry, mailer)
        assert states(registry) == {**dict.fromkeys(("grey", "gone", "broken"), "waiting"), "good": "sent"}
        assert mailbox.connections == 1
        registry.advance(minutes=1)
        mailbox.replies_rcpt.pop("grey@example.org")
        send(registry, mailer)
        assert states(registry)["grey"] == "sent"
        registry.advance(days=3)
        send(registry, mailer)
    assert states(registry) == {"grey": "sent", "gone": "given up", "broken": "given up", "good": "sent"}
    assert mailbox.recipients() == ["ann@example.org", "grey@example.org"]
    assert "no such user" in (mails(registry)["gone"].error or "")
    assert mailer.outcomes == {"sent": 2, "failed": 5, "given_up": 2}


def test_a_mail_that_ends_the_connection_does_not_delay_other_mails(registry: Registry) -> None:
    mailbox = Mailbox(replies_data=["421 4.3.0 that is too much for me"])
    put(registry, "a", "b", "c")
    with smtp_server(mailbox) as port:
        mailer = mailer_to(registry, port)
        send(registry, mailer)
        assert states(registry) == {"a": "waiting", "b": "sent", "c": "sent"}
        registry.advance(minutes=1)
        send(registry, mailer)
    assert states(registry)["a"] == "sent"
    assert mailbox.connections == 3


def test_mails_wait_while_the_server_refuses_the_sender_and_codes_are_tried_each_minute(
    registry: Registry,
) -> None:
    """Servers refuse the sender with 450 if a client sends too many mails."""
    mailbox = Mailbox()
    put(registry, "a", "b")
    put(registry, "code", subject="code", expires_at=registry.now + timedelta(hours=1))
    with smtp_server(mailbox) as port:
        mailer = mailer_to(registry, port)
        for _ in range(3):
            mailbox.replies_mail.append("450 4.7.1 too much mail")
            send(registry, mailer)
            assert not registry.run(mailer.send_due()), "the mailer pauses"
            registry.advance(minutes=1)
        assert [each.attempts for each in mails(registry).values()] == [3, 0, 0]  # newest first
        send(registry, mailer)
    assert mailbox.messages()[0]["Subject"] == "code"
    assert set(states(registry).values()) == {"sent"}


def test_a_slow_server_lets_the_mailer_count_and_erase_between_mails(
    registry: Registry, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(mailer_module, "CONNECTION_SECONDS_MAX", 0.0)
    mailbox = Mailbox()
    put(registry, "first", "second")
    with smtp_server(mailbox) as port:
        assert send(registry, mailer_to(registry, port))
    assert states(registry) == {"first": "sent", "second": "waiting"}


def test_one_mail_is_tried_while_the_server_is_down_and_all_arrive_afterwards(
    registry: Registry,
) -> None:
    mailbox = Mailbox()
    put(registry, "a", "b", "c")
    port = free_address()[1]
    mailer = mailer_to(registry, port)
    send(registry, mailer)
    assert [each.attempts for each in mails(registry).values()] == [0, 0, 1]  # newest first
    assert not registry.run(mailer.send_due()), "the mailer waits before it asks again"
    with smtp_server(mailbox, port=port):
        send(registry, mailer)
        assert states(registry) == {"a": "waiting", "b": "sent", "c": "sent"}
        registry.advance(minutes=1)
        send(registry, mailer)
    assert states(registry) == dict.fromkeys("abc", "sent")
    assert len(mailbox.taken) == 3


@contextmanager
def silent_server() -> Iterator[tuple[int, list[bytes]]]:
    """A server that greets and reads, and then never answers."""
    heard: list[bytes] = []
    with socket.create_server(("127.0.0.1", 0)) as listening:

        def serve() -> None:
            connection, _ = listening.accept()
            with connection:
                connection.sendall(b"220 hello\r\n")
                heard.append(connection.recv(1000))
                connection.sendall(b"250 hello\r\n")
                while part := connection.recv(1000):
                    heard.append(part)

        thread = threading.Thread(target=serve, daemon=True)
        thread.start()
        yield int(listening.getsockname()[1]), heard
        thread.join(60)
        assert not thread.is_alive()


def test_a_server_that_stops_answering_times_out(registry: Registry, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(smtp, "SENDING_MAX_SECONDS", 0.2)
    put(registry, "a")
    with silent_server() as (port, _):
        send(registry, mailer_to(registry, port))
    assert mails(registry)["a"].error == "The mail server took too long."


def test_a_server_that_scans_a_mail_for_long_gets_it_once(
    registry: Registry, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(smtp, "TIMEOUT_SECONDS", 0.5)
    mailbox = Mailbox(scan_seconds=1.0)
    put(registry, "a")
    with smtp_server(mailbox) as port:
        mailer = mailer_to(registry, port)

        def is_sent() -> bool:
            registry.advance(minutes=1)  # a busy machine may need longer than 0.5 s to connect
            send(registry, mailer)
            return states(registry) == {"a": "sent"}

        wait_until(is_sent)
    assert len(mailbox.taken) == 1


def test_a_server_without_a_greeting_times_out_and_gets_one_connection_at_a_time(
    registry: Registry, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(smtp, "CONNECTING_MAX_SECONDS", 1.0)
    put(registry, "a", "b")
    with socket.create_server(("127.0.0.1", 0)) as listening:
        port = listening.getsockname()[1]
        mailer = mailer_to(registry, port)
        for _ in range(2):
            send(registry, mailer)
            listening.settimeout(60)
            with listening.accept()[0] as connection:
                assert connection.recv(1) == b""
            listening.setblocking(False)
            with pytest.raises(BlockingIOError):
                listening.accept()
    told = f"The mail server 127.0.0.1:{port} can't be used: connecting took too long."
    assert {each.error for each in mails(registry).values()} == {told}


def test_a_greeting_without_an_end_keeps_no_connection(
    registry: Registry, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(smtp, "CONNECTING_MAX_SECONDS", 1.0)
    put(registry, "a")
    with socket.create_server(("127.0.0.1", 0)) as listening:

        def greet() -> None:
            with listening.accept()[0] as connection, suppress(OSError):
                while True:
                    connection.sendall(b"220-welcome\r\n")
                    time.sleep(0.05)

        greeting = threading.Thread(target=greet, daemon=True)
        greeting.start()
        mailer = mailer_to(registry, listening.getsockname()[1])

        def is_closed() -> bool:
            registry.advance(minutes=1)  # a busy machine may connect only after the first try
            send(registry, mailer)
            return not greeting.is_alive()

        wait_until(is_closed)


def test_the_timeouts_of_a_mail_are_shorter_than_its_claim() -> None:
    longest = smtp.CONNECTING_MAX_SECONDS + smtp.SENDING_MAX_SECONDS + mailer_module.FINISH_SECONDS
    assert longest < LEASE.total_seconds()


@contextmanager
def second_database(registry: Registry, url: str) -> Iterator[Database]:
    second = open_database(url, lambda: registry.now, may_lose_writes=True)
    try:
        yield second
    finally:
        registry.run(second.close())


def test_two_mailers_on_one_database_send_each_mail_once(
    postgresql_registry: Prepared, postgresql_server: str
) -> None:
    mailbox = Mailbox()
    take = mailbox.handle_DATA

    async def take_once_both_send(*args: object) -> str:
        while mailbox.connections < 2:  # noqa: ASYNC110 - a connection is no event
            await asyncio.sleep(0.01)
        return await take(*args)  # type: ignore[arg-type]

    mailbox.handle_DATA = take_once_both_send  # type: ignore[assignment,method-assign]
    references = [f"test:{number}" for number in range(60)]
    with (
        fresh_database(postgresql_server, like=postgresql_registry.url) as url,
        open_registry(url, postgresql_registry) as registry,
        second_database(registry, url) as second,
        smtp_server(mailbox) as port,
    ):
        put(registry, *references)
        mailers = [mailer_to(registry, port), mailer_to(registry, port)]
        mailers[1]._db = second

        async def run() -> None:
            while set(states_of(await registry.db.read(all_mails))) != {"sent"}:
                await asyncio.gather(*(mailer.send_due() for mailer in mailers))

        registry.run(run())
    assert len(mailbox.taken) == 60
    assert len({each["Message-ID"] for each in mailbox.messages()}) == 60
    assert all(mailer.outcomes["sent"] for mailer in mailers), "one had nothing to do"
    assert sum(mailer.outcomes["sent"] for mailer in mailers) == 60


def test_a_stopping_mailer_finishes_the_current_mail(
    registry: Registry, monkeypatch: pytest.MonkeyPatch
) -> None:
    mailbox = Mailbox()
    taking, go_on = threading.Event(), threading.Event()
    take = mailbox.handle_DATA

    async def slowly(*args: object) -> str:
        taking.set()
        await asyncio.to_thread(go_on.wait, 60)
        return await take(*args)  # type: ignore[arg-type]

    mailbox.handle_DATA = slowly  # type: ignore[assignment,method-assign]
    put(registry, "a", "b")

    async def run(port: int) -> None:
        running = asyncio.create_task(mailer_to(registry, port).run())
        await asyncio.to_thread(taking.wait, 60)
        running.cancel()
        go_on.set()
        with pytest.raises(asyncio.CancelledError):
            await running

    with smtp_server(mailbox) as port:
        registry.run(run(port))
    assert states(registry) == {"a": "sent", "b": "waiting"}
    assert mails(registry)["b"].attempts == 0


def test_a_stopping_mailer_does_not_wait_for_a_silent_server(
    registry: Registry, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(mailer_module, "FINISH_SECONDS", 0.1)
    put(registry, "a")

    async def run(port: int, heard: list[bytes]) -> None:
        running = asyncio.create_task(mailer_to(registry, port).run())
        await asyncio.to_thread(wait_until, lambda: len(heard) > 1)
        running.cancel()
        with pytest.raises(asyncio.CancelledError):
            await running

    with silent_server() as (port, heard):
        registry.run(run(port, heard))
    found = mails(registry)["a"]
    assert (found.state, found.attempts) == ("waiting", 1)


def test_a_mailer_stopped_without_a_free_thread_leaves_no_connection(registry: Registry) -> None:
    """A thread sends QUIT.

    Here it gets a thread only after the mailer ended, because the only thread waits for the test.
    """
    mailbox, go_on = Mailbox(), threading.Event()
    put(registry, "a")

    async def run(port: int) -> None:
        asyncio.get_running_loop().set_default_executor(ThreadPoolExecutor(1))
        transport = mailer_to(registry, port)._transport
        assert isinstance(transport, SmtpTransport)
        (mail,) = await registry.db.read(all_mails)
        await transport.send(mail)
        client = transport._client
        assert client is not None
        occupied = asyncio.create_task(asyncio.to_thread(go_on.wait, 10))
        await asyncio.sleep(0)
        closing = asyncio.create_task(transport.close())
        await asyncio.sleep(0)
        closing.cancel()
        await asyncio.sleep(0)
        go_on.set()
        with pytest.raises(asyncio.CancelledError):
            await closing
        await occupied
        assert client.sock is None

    with smtp_server(mailbox) as port:
        asyncio.run(run(port))  # not in the registry's event loop, whose threads other tests need


def test_the_log_has_neither_address_nor_text(registry: Registry) -> None:
    put(registry, "ticket:1:message:2", text="A secret", subject="Re: [T-000001] Hello")
    mailer = Mailer(registry.db, LogTransport())
    with structlog.testing.capture_logs() as lines:
        send(registry, mailer)
    shown = next(line for line in lines if line["event"] == "mail_not_sent")
    assert shown == {
        "event": "mail_not_sent",
        "log_level": "info",
        "mail_id": mails(registry)["ticket:1:message:2"].id,
        "reference": "ticket:1:message:2",
        "subject": "Re: [T-000001] Hello",
    }
    assert "mail_sent" not in {line["event"] for line in lines}
    assert "A secret" not in str(lines)
    assert "ann@example.org" not in str(lines)
    assert states(registry) == {"ticket:1:message:2": "logged"}
    assert mailer.outcomes == {"logged": 1}
    assert mails(registry)["ticket:1:message:2"].logged_at == registry.now


def test_a_change_wakes_the_mailer(registry: Registry) -> None:
    mailbox = Mailbox()

    async def run(port: int) -> None:
        mailer = mailer_to(registry, port)
        running = asyncio.create_task(mailer.run())
        await asyncio.sleep(0)

        def verb(tx: Tx) -> None:
            user = find_user(tx, registry.users["ann"])
            assert user is not None
            enqueue(tx, user, Message("S", "T"), reference="a")

        await registry.db.write(verb)
        await asyncio.to_thread(wait_until, lambda: len(mailbox.taken) == 1)
        running.cancel()
        with pytest.raises(asyncio.CancelledError):
            await running

    with smtp_server(mailbox) as port:
        registry.run(run(port))
    assert states(registry) == {"a": "sent"}
