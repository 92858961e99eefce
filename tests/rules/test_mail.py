"""The rules of mail: retries, the form of a message, and the text of a mail about a ticket."""

from datetime import UTC, datetime, timedelta
from email import message_from_bytes
from email.policy import default

import pytest

from sublet.accounts.fields import InvalidAddress
from sublet.mail.letter import (
    CHARACTERS_MAX,
    EXAMPLE_VALUES,
    compose,
    html_of,
    message_id,
    names,
    one_line,
    quote_lines,
    quoted,
    render,
    without_links,
)
from sublet.mail.model import GIVEN_UP_AFTER, Mail, Notice, back_off, is_given_up, with_link
from sublet.mail.operator_notices import KINDS, NOTICES_MAX, write_operator_mail
from sublet.structs import replace
from sublet.tickets.model import NewMessage, Ticket
from sublet.tickets.staff import mail_subject, mail_text

NOW = datetime(2026, 11, 21, 9, 30, tzinfo=UTC)
MAIL = Mail(
    id=7,
    reference="ticket:1:message:2",
    user_id=1,
    recipient="ada@example.org",
    subject="Grüße",
    text="Erste Zeile\n.\nÜber dem Punkt\n",
    page="",
    attempts=1,
    next_attempt_at=NOW,
    error=None,
    sent_at=None,
    logged_at=None,
    given_up_at=None,
    created_at=NOW,
)


@pytest.mark.parametrize(
    ("attempts", "minutes"), [(1, 1), (2, 2), (3, 4), (6, 32), (7, 60), (8, 60), (100_000, 60)]
)
def test_back_off_doubles_up_to_an_hour(attempts: int, minutes: int) -> None:
    assert back_off(attempts, 0) == timedelta(minutes=minutes)
    assert back_off(attempts, 1) == timedelta(minutes=minutes) / 2


@pytest.mark.parametrize(
    ("age", "permanent", "given_up"),
    [
        (timedelta(), True, False),
        (GIVEN_UP_AFTER - timedelta(microseconds=1), True, False),
        (GIVEN_UP_AFTER, True, True),
        (timedelta(days=365), False, False),
    ],
)
def test_only_a_permanent_refusal_ends_the_attempts(age: timedelta, permanent: bool, given_up: bool) -> None:
    assert is_given_up(NOW, NOW + age, permanent=permanent) is given_up


def test_a_message_is_text_and_html_and_marked_as_automatic() -> None:
    message = compose(MAIL, "Namen & Co", "names@example.net")
    raw = message.as_bytes()
    assert raw.isascii()
    read = message_from_bytes(raw, policy=default)
    assert (
        read["From"] == '"Namen & Co" <names@example.net>' or read["From"] == "Namen & Co <names@example.net>"
    )
    assert read["To"] == "ada@example.org"
    assert read["Subject"] == "Grüße"
    assert read["Auto-Submitted"] == "auto-generated"
    assert read["Date"].datetime == NOW
    assert read.get_content_type() == "multipart/alternative"
    text, html = read.iter_parts()
    assert text["Content-Type"].params["charset"] == html["Content-Type"].params["charset"] == "utf-8"
    assert text.get_content().splitlines() == MAIL.text.splitlines()
    assert html.get_content_type() == "text/html"
    assert "Über dem Punkt" in html.get_content()


def test_the_html_part_shows_the_text_and_escapes_markup() -> None:
    long = "a line that is so long that only the width of the text can have divided it"
    link = "https://names.example.net/signup/confirm?token=a&b"
    evil = '<img src=x onerror="alert(1)"> & javascript:alert(1)'
    page = html_of("Grüße <b>", f"Hello,\n\n{long}\ngoes on\n\n  {link}\n\n{evil}\n\none\ntwo\n")
    assert f"<p>{long} goes on</p>" in page
    assert '<a href="https://names.example.net/signup/confirm?token=a&amp;b">' in page
    assert "&lt;img src=x" in page
    assert page.count("<a ") == 1
    assert "<img" not in page
    assert "<p>one<br>two</p>" in page
    assert "<title>Grüße &lt;b&gt;</title>" in page
    assert html_of("a", "https://x.example/ and more").count("<a ") == 0
    assert html_of("a", "javascript:alert(1)").count("<a ") == 0


def test_every_attempt_sends_the_same_message_and_every_mail_has_its_own() -> None:
    first = compose(MAIL, "", "names@example.net").as_bytes()
    later = replace(MAIL, attempts=9, next_attempt_at=NOW + timedelta(hours=3), error="500 no")
    assert compose(later, "", "names@example.net").as_bytes() == first
    others = (
        replace(MAIL, id=8),
        replace(MAIL, reference="ticket:1:message:3"),
        replace(MAIL, created_at=NOW + timedelta(microseconds=1)),
    )
    ids = {message_id(each, "example.net") for each in (MAIL, *others)}
    assert len(ids) == 4
    assert all(each.startswith("<mail.") and each.endswith("@example.net>") for each in ids)


@pytest.mark.parametrize(
    "evil", ["a\r\nBcc: eve@example.com", "a\nBcc: eve", "a\u2028b", "a\x00b\x1b[2J", "a\rb\x85c"]
)
def test_a_user_s_text_can_t_add_a_header(evil: str) -> None:
    message = compose(replace(MAIL, subject=evil), evil, "names@example.net")
    read = message_from_bytes(message.as_bytes(), policy=default)
    assert sorted(read.keys()) == sorted(
        [
            "From", "To", "Subject", "Date", "Message-ID", "Auto-Submitted", "Content-Type", "MIME-Version",
        ]
    )  # fmt: skip
    assert read["Subject"] == one_line(evil)
    assert read["To"] == "ada@example.org"
    long = compose(replace(MAIL, subject="ä" * 5000), "", "names@example.net").as_bytes()
    assert message_from_bytes(long, policy=default)["Subject"] == "ä" * 500
    assert max(len(line) for line in long.splitlines()) < 200
    with pytest.raises(InvalidAddress):
        compose(replace(MAIL, recipient=evil + "@example.org"), "", "names@example.net")


def test_an_encoded_word_of_a_user_is_not_decoded() -> None:
    word = "=?utf-8?q?a=0d=0abcc=3a_eve?="
    sent = compose(replace(MAIL, subject=f"Re: {word}"), word, "names@example.net").as_bytes()
    read = message_from_bytes(sent, policy=default)
    assert "Bcc" not in read
    assert read["Subject"] == "Re: = ?utf-8?q?a=0d=0abcc=3a_eve?="
    with pytest.raises(InvalidAddress):
        compose(replace(MAIL, recipient=f"{word}@example.org"), "", "names@example.net")


def test_a_mail_is_sent_to_the_canonical_address() -> None:
    message = compose(replace(MAIL, recipient="Ada@bücher.example."), "", "names@example.net")
    assert message["To"] == "ada@xn--bcher-kva.example"
    with pytest.raises(InvalidAddress):
        compose(replace(MAIL, recipient="ada@localhost"), "", "names@example.net")


TICKET = Ticket(
    id=123,
    user_id=1,
    type="support",
    status="open",
    priority="normal",
    subject="Wo ist mein Name?",
    requester_email="ada@example.org",
    subdomain="blog.example.test",
    created_at=NOW,
    last_message_at=NOW,
    updated_at=NOW,
)


def test_the_text_of_a_mail_about_a_ticket() -> None:
    text = mail_text(TICKET, NewMessage("staff", "Olga", "\nDort.\n\nUnd hier.\n"))
    assert mail_subject(TICKET) == "Re: [T-000123] Wo ist mein Name?"
    assert text.startswith(
        "Olga wrote in your ticket T-000123, about blog.example.test:\n\nDort.\n\nUnd hier.\n\n-- \n"
    )
    closed = replace(TICKET, status="closed", subdomain=None)
    assert mail_subject(closed) == "Closed: [T-000123] Wo ist mein Name?"
    text = mail_text(closed, NewMessage("system", "System", "Zu."))
    assert "open a new ticket" in text
    assert "about" not in text


@pytest.mark.parametrize(
    ("text", "linked"),
    [
        ("Hello.\n", "Hello.\n\nhttps://names.example.net/names/a\n"),
        ("Hello.\n\n-- \nWhy.\n", "Hello.\n\nhttps://names.example.net/names/a\n\n-- \nWhy.\n"),
        (
            "Hello.\n\n-- \nOlga\n\n-- \nWhy.\n",
            "Hello.\n\n-- \nOlga\n\nhttps://names.example.net/names/a\n\n-- \nWhy.\n",
        ),
    ],
)
def test_the_link_is_above_the_signature(text: str, linked: str) -> None:
    mail = replace(MAIL, text=text, page="/names/a")
    assert with_link(mail, "https://names.example.net").text == linked
    assert with_link(mail, "") == mail
    assert with_link(replace(mail, page=""), "https://names.example.net").text == text
    assert '<a href="https://names.example.net/names/a">' in html_of("S", linked)


@pytest.mark.parametrize(
    ("text", "shown"),
    [
        ("It works.", "> It works."),
        ("a\n\nb\r\nc\u2028d", "> a\n>\n> b\n> c\n> d"),
        ("https://evil.example/x?y=1", "> https[:]//evil[.]example/x?y=1"),
        ("www.evil.example, ftp://192.0.2.1", "> www[.]evil[.]example, ftp[:]//192[.]0[.]2[.]1"),
        ("mailto:ada@evil.example", "> mailto[:]ada[at]evil[.]example"),
        ("evil\u3002example evil\uff0eexample", "> evil[.]example evil[.]example"),
        ("\U0001f4a9.example wait...", "> \U0001f4a9[.]example wait..."),
        ("a\u202eb\x00c\td", "> a b c d"),
        ("> quoted already", "> > quoted already"),
        ("  \n ", ""),
        ("x" * (CHARACTERS_MAX + 1), f"> {'x' * CHARACTERS_MAX}\n> […]"),
    ],
)
def test_a_users_text_is_quoted_without_links(text: str, shown: str) -> None:
    assert quote_lines(text) == shown
    assert "<a " not in html_of("S", quote_lines(text))


def test_a_mail_to_the_operator_counts_notices_in_its_subject() -> None:
    for kind, (one, several, command) in KINDS.items():
        notices = [
            Notice(number, kind, f"Text {number}.", "evil", None) for number in range(1, NOTICES_MAX + 2)
        ]
        assert write_operator_mail(notices[:1], "Names").subject == f"[Names] 1 {one}"
        message = write_operator_mail(notices, "Names")
        assert message.subject == f"[Names] {NOTICES_MAX + 1} {several}"
        assert message.text.startswith("Text 1.\n\n> evil\n\nText 2.\n")
        assert f"And 1 {one}: `{command}`" in message.text


@pytest.mark.parametrize(
    ("text", "shown"),
    [
        ("Ada Lovelace", "Ada Lovelace"),
        ("Dr. Ada, M.D.", "Dr. Ada, M[.]D."),
        ("https://evil.example/x?y=1", "https[:]//evil[.]example/x?y=1"),
        ("HTTP://1.2.3.4 and mailto:a@b.test", "HTTP[:]//1[.]2[.]3[.]4 and mailto[:]a[at]b[.]test"),
        ("at 12:30, for 3 EUR...", "at 12:30, for 3 EUR..."),
        ("s3://evil https\u200b://x\u202eb", "s3[:]//evil https [:]//x b"),
        ("Eve” said “", "Eve” said “"),
    ],
)
def test_a_user_s_text_shows_no_link_in_a_mail(text: str, shown: str) -> None:
    assert without_links(text) == shown
    assert quoted(text) == "“" + shown.replace("”", '"').replace("“", '"') + "”"
    mail = render("name_works", **EXAMPLE_VALUES | {"name": text})
    assert mail.text.startswith(f"Hello {shown},\n")


@pytest.mark.parametrize(
    ("template", "values", "subject", "parts"),
    [
        (
            "name_broken",
            {},
            "blog.example.net doesn't work",
            ["doesn't answer", "28 November 2026, 09:30 UTC"],
        ),
        ("name_broken", {"leaves_at": None}, "blog.example.net doesn't work", ["page of the name shows"]),
        ("name_left", {}, "blog.example.net left the DNS", ["ns1.provider.example, ns2.provider.example"]),
        ("nameservers_in_trash", {}, "Nameservers of blog.example.net need a change", ["19 February 2027"]),
        (
            "nameservers_in_trash",
            {"ends_soon": True},
            "… are about to be removed",
            ["which lies at or below"],
        ),
        ("nameservers_removed", {}, "… were removed", ["has 1 nameserver left"]),
        ("nameservers_removed", {"remaining_count": 0}, "… were removed", ["has no nameservers left"]),
        ("name_expires", {}, "… expires on 21 December 2026", ["renew it on its page", "20 January 2027"]),
        ("name_expires", {"by_operator": True}, "… expires on 21 December 2026", ["Only the operator"]),
        ("name_expired", {}, "… has expired", ["expired on 21 December 2026", "stays in the DNS"]),
        ("name_trashed", {}, "… went to the trash", ["restore it on its page until 19 February 2027"]),
        ("name_trashed", {"by_operator": True}, "… went to the trash", ["The operator can restore it"]),
        ("name_trashed", {"closed_domain": "example.net"}, "… went to the trash", ["can't be renewed or"]),
        ("trash_ends", {}, "… is about to be purged from the trash", ["restore it on its page until"]),
        ("name_renewed", {}, "… was renewed", ["It cost 10 credits."]),
        ("name_renewed", {"charged_credits": 0}, "… was renewed", ["It cost nothing."]),
        ("name_not_renewed", {}, "… could not be renewed", ["is too low.", "It expires on 21 December 2026"]),
        ("name_not_renewed", {"has_expired": True}, "… could not be renewed", ["It expired on"]),
        ("domain_closes", {}, "example.net closes on 1 March 2027", ["You hold 2 names there: blog"]),
        ("domain_closes", {"names": ["a"] * 23}, "example.net closes", ["a and 3 more."]),
        ("domain_stays", {}, "example.net stays open", ["will not close. You hold 2 names there"]),
    ],
)
def test_a_mail_says_what_happened_and_what_to_do(
    template: str, values: dict[str, object], subject: str, parts: list[str]
) -> None:
    mail = render(template, **EXAMPLE_VALUES | values)
    assert subject.lstrip("… ") in mail.subject
    assert all(part in mail.text for part in parts)


@pytest.mark.parametrize("template", names())
def test_every_template_is_a_subject_and_paragraphs(template: str) -> None:
    mail = render(template, **EXAMPLE_VALUES)
    assert mail.subject
    assert mail.text.startswith("Hello")
    assert "\n\n\n" not in mail.text
    assert mail.text.endswith("\n")
