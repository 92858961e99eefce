"""A killed service loses no mail, and a dead mail server stops nothing but mail.

A real process, a real SMTP server.
"""

import signal
from pathlib import Path

import pytest

from sublet.doctor.running import check_mail
from sublet.mail import store
from sublet.mail.model import Mail
from support.running_service import RunningService, registry_address, running_service
from support.serve_process import ServeProcess, free_address, serve_process, wait_until
from support.smtp_server import Mailbox, smtp_server, text_of

pytestmark = pytest.mark.slow


def settings(port: int) -> dict[str, str]:
    return {
        "SUBLET_MAIL_TRANSPORT": "smtp",
        "SUBLET_MAIL_FROM": "names@example.net",
        "SUBLET_SMTP_HOST": "127.0.0.1",
        "SUBLET_SMTP_PORT": str(port),
        "SUBLET_SMTP_SECURITY": "none",
    }


def the_mail(service: RunningService) -> Mail:
    (mail,) = service.read(lambda tx: store.list_mails(tx, waiting=False, user_id=None, limit=10))
    return mail


def answer_a_ticket(service: RunningService) -> None:
    ada = service.add_user()
    asked = {"subject": "Slow answers", "message": "Since this morning."}
    number = service.call(ada, "POST", "/support/tickets", asked).json()["ticket"]["ticket_number"]
    service.operator("ticket", "reply", number, "--message", "It is mended.")


def end_the_claim(serving: ServeProcess) -> None:
    """What five minutes do."""
    mail = the_mail(serving.service)
    assert (mail.state, mail.attempts) == ("waiting", 1)
    serving.service.write(lambda tx: store.set_due(tx, mail.id))


@pytest.mark.parametrize(("point", "before"), [("mail_claimed", 0), ("mail_taken", 1)])
def test_a_killed_service_sends_the_mail_once_or_twice_with_one_id(
    tmp_path: Path, point: str, before: int
) -> None:
    mailbox = Mailbox()
    with (
        smtp_server(mailbox) as port,
        serve_process(registry_address(tmp_path), tmp_path) as serving,
    ):
        serving.environment = settings(port)
        serving.start(point)
        answer_a_ticket(serving.service)
        assert serving.wait() == -signal.SIGKILL
        assert len(mailbox.taken) == before, "it was not killed at the point"
        end_the_claim(serving)
        serving.start()
        wait_until(lambda: the_mail(serving.service).state == "sent")
        assert serving.stop() == 0
        assert len(mailbox.taken) == before + 1
        assert len({each.content for each in mailbox.taken}) == 1, "a second copy is the same message"
        (told,) = {each["Subject"] for each in mailbox.messages()}
        assert told == "Re: [T-000001] Slow answers"
        assert "It is mended." in text_of(mailbox.messages()[0])


def test_a_stopped_mail_server_stops_only_mail(tmp_path: Path) -> None:
    mailbox = Mailbox()
    port = free_address()[1]
    with running_service(
        registry_address(tmp_path),
        mail_transport="smtp",
        mail_from="names@example.net",
        smtp_host="127.0.0.1",
        smtp_port=port,
        smtp_security="none",
        log_level="error",
    ) as service:
        service.add_domain()
        answer_a_ticket(service)
        wait_until(lambda: the_mail(service).error is not None)
        bob = service.add_user("bob@example.org")
        answer = service.register(bob, "blog.example.test", nameservers=["ns1.provider.example"])
        assert answer["subdomain"]["status"] == "active"
        origin = service.base_url.removesuffix("/api/v1")
        assert service.client.get(f"{origin}/readyz").json() == {
            "ok": True,
            "checks": {"database": True, "worker": True},
        }
        assert 'sublet_mails_total{outcome="failed"} 1.0' in service.client.get(f"{origin}/metrics").text
        (shown,) = service.operator("mail", "list", "--waiting")
        assert (shown["state"], shown["attempts"]) == ("waiting", 1)
        assert "can't be used" in shown["error"]
        service.clock.advance(days=1)
        assert [each.invariant for each in service.read(check_mail)] == ["no_mail_waits"]
        with smtp_server(mailbox, port=port):
            service.operator("mail", "retry", str(shown["id"]))
            wait_until(lambda: the_mail(service).state == "sent")
        assert service.read(check_mail) == []
    assert mailbox.recipients() == ["ada@example.org"]
