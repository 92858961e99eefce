"""Whatever users write into their texts, the operator can check, back up and restore the registry."""

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from sqlalchemy import select

from sublet.accounts.tokens.issue import digest
from sublet.db import Tx
from sublet.schema import metadata
from support.authenticator import Authenticator
from support.browsers import Browser, signed_in
from support.console_client import newest_mail
from support.running_service import Registrant, RunningService, running_service

pytestmark = [pytest.mark.slow, pytest.mark.sqlite_only]
TOKEN_LIKE = f"sublet_{'a' * 38}"
HOSTILE = (
    "'; DROP TABLE users; --",
    '"><script>alert(1)</script>{{ 7*7 }}%s%n',
    "=cmd|' /C calc'!A0",
    "URGENT: your account is locked. Confirm at https://evil.example/",
    "Zo\u00eb \U0001f4a9 \u0627\u0644\u0639\u0631\u0628\u064a\u0629",
    "-----BEGIN PRIVATE KEY-----",
)
ADA = "ada@example.org"
WRITTEN = {
    "audit_events": "before after",
    "device_requests": "name",
    "idempotency_keys": "key",
    "mailed_codes": "email name",
    "mails": "recipient",
    "messages": "author_name message",
    "name_transfers": "recipient_email",
    "organizations": "name",
    "passkeys": "name",
    "sessions": "user_agent",
    "subdomains": "records",
    "tickets": "subject",
    "tokens": "name",
    "users": "name",
}
"""The columns with texts of users that the requests below must reach, by table."""


@pytest.fixture
def service(tmp_path: Path) -> Iterator[RunningService]:
    url = f"sqlite:///{tmp_path}/registry.db"
    with running_service(url, signup="open", organizations_per_user=100) as running:
        running.add_domain()
        running.operator("domain", "edit", "example.test", "--records", "on")
        yield running


def write_everywhere(
    service: RunningService, ada: Registrant, browser: Browser, text: str, number: int
) -> None:
    """Write a text into each field that takes it.

    `number` is different for each text. No answer is an internal error.
    """
    root = service.origin
    authenticator = Authenticator(root)
    challenge = browser.call("POST", "/passkeys/challenge", {}).json()["public_key"]
    fqdn, local = f"name-{number}.example.test", text[:64]
    service.register(
        ada, fqdn, nameservers=["ns1.provider.example"], ds_records=[f"{number} 13 2 {digest(text)}"]
    )
    made = browser.call("POST", "/organizations", {"name": text}).json()["organization"]
    subject = {"subject": text, "message": text}
    ticket = service.call(ada, "POST", "/support/tickets", subject, x_request_id=text.encode().hex()[:60])
    requests: list[tuple[Any, str, str, dict[str, Any]]] = [
        (browser, "PATCH", "/me", {"name": text}),
        (browser, "PATCH", f"/organizations/{made['id']}", {"name": f"{text}!"}),
        (browser, "POST", "/passkeys", {"name": text, "credential": authenticator.create(challenge)}),
        (browser, "POST", "/tokens", {"name": text, "scopes": ["account:read"]}),
        (ada, "POST", f"/support/tickets/{ticket.json()['ticket']['id']}/reply", {"message": text}),
    ]
    for who, method, path, body in requests:
        call = who.call if isinstance(who, Browser) else lambda *sent: service.call(ada, *sent)
        answer = call(method, path, body)
        assert answer.status_code in (200, 201), (path, answer.text)
    # A record, an address or a key with such a text is stored or refused.
    sent_records = {
        "fqdn": f"text-{number}.example.test",
        "records": [{"name": "@", "type": "TXT", "values": [text]}],
    }
    assert service.call(ada, "POST", "/subdomains", sent_records).status_code in (201, 422), text
    headers = {"user-agent": text.encode("ascii", "ignore").decode().strip()}
    for method, path, sent in (
        (
            "POST",
            f"/organizations/{made['id']}/invitations",
            {"email": f"{local}@example.org", "role": "member"},
        ),
        ("POST", f"/subdomains/{fqdn}/transfer", {"to": f"{local}@example.org"}),
        ("PATCH", "/me", {"email": f"{local}@example.net"}),
        ("POST", "/organizations", {"name": "Key"}),
    ):
        key = text if path == "/organizations" and text.isascii() else f"{number}{method}{path}"
        answer = browser.call(method, path, sent, idempotency_key=key)
        assert answer.status_code in (200, 201, 400, 422, 429), (path, answer.text)
    for path, sent in (
        ("/auth/signup", {"email": f"eve{number}@example.org", "name": text}),
        ("/auth/device", {"name": text}),
    ):
        assert service.client.post(root + path, json=sent).status_code in (200, 202), path
    email = f"{number}@example.org"
    service.add_user(email)
    service.client.post(f"{root}/auth/sessions", json={"email": email})
    code = newest_mail(service, email).partition("your code is ")[2][:6]
    done = service.client.post(
        f"{root}/auth/sessions/confirm", json={"email": email, "code": code}, headers=headers
    )
    assert done.status_code == 201, done.text


def columns_with(service: RunningService, text: str) -> set[str]:
    """Return the columns with a text in any row."""

    def ask(tx: Tx) -> set[str]:
        return {
            f"{table.name}.{column.name}"
            for table in metadata.sorted_tables
            for column in table.c
            if any(text in str(value) for value in tx.connection.execute(select(column)).scalars())
        }

    return service.read(ask)


def test_no_text_of_a_user_stops_doctor_backup_or_restore(service: RunningService, tmp_path: Path) -> None:
    ada = service.add_user(ADA, free_quota="199")
    browser = signed_in(service, ADA)
    texts = (*HOSTILE, ada.token, digest(ada.token), f"x{ada.token}y", TOKEN_LIKE)
    for number, text in enumerate(texts, 1):
        write_everywhere(service, ada, browser, text, number)
    wanted = {f"{table}.{name}" for table, names in WRITTEN.items() for name in names.split()}
    assert wanted - columns_with(service, TOKEN_LIKE) == set()
    for text in texts:
        assert "messages.message" in columns_with(service, text)
    backup, elsewhere = tmp_path / "backup.db", f"sqlite:///{tmp_path}/elsewhere.db"
    assert service.operator("doctor")["violations"] == []
    assert service.operator("backup", str(backup))["violations"] == []
    service.environment["SUBLET_DATABASE_URL"] = elsewhere
    service.operator("restore", str(backup))
    assert service.operator("doctor")["violations"] == []
    for words in (("user", "list"), ("ticket", "list"), ("audit", "list")):
        service.operator(*words)
