"""A killed service loses no mail, and a dead mail server stops nothing but mail.

A real process, a real SMTP server.
"""

import signal
from pathlib import Path

import pytest

from sublet.mail import store
from sublet.mail.model import Mail
from support.running_service import RunningService, registry_address
from support.serve_process import ServeProcess, serve_process
from support.smtp_server import Mailbox, smtp_server, text_of
from support.waiting import wait_until

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


@pytest.mark.parametrize(
    ("point", "before"), [pytest.param("mail_claimed", 0, marks=pytest.mark.whole), ("mail_taken", 1)]
)
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
