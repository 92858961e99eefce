"""Revoking the tokens whose secrets a report of leaks contains; on both databases."""

import json

from sqlalchemy import select

from sublet.accounts.tokens.issue import issue_token, new_token, revoke_token
from sublet.accounts.tokens.tokens import create_token, rotate_token
from sublet.db import Tx
from sublet.mail.store import mails
from sublet.registry.revoke_leaked import LeakReport, revoke_leaked
from support.acting_tokens import acting, stored
from support.registry import OPERATOR, Registry

SCOPES = {"scopes": ("account:read", "tokens:write")}


def report(registry: Registry, text: str) -> LeakReport:
    return registry.write(revoke_leaked, OPERATOR, text)


def told(registry: Registry) -> list[tuple[str, str, str]]:
    def read(tx: Tx) -> list[tuple[str, str, str]]:
        query = select(mails.c.recipient, mails.c.subject, mails.c.text).order_by(mails.c.id)
        return [tuple(row) for row in tx.connection.execute(query)]

    return registry.read(read)


def test_leaked_tokens_and_their_descendants_are_revoked_and_their_users_mailed(
    registry: Registry,
) -> None:
    laptop = registry.write(issue_token, OPERATOR, "ann@example.org", "laptop")
    script = registry.write(issue_token, OPERATOR, "ben@example.org", "script")
    kept = registry.write(issue_token, OPERATOR, "ann@example.org", "kept")
    child = registry.write(create_token, acting(laptop.token), "child", SCOPES)
    grandchild = registry.write(create_token, acting(child.token), "grandchild", SCOPES)
    text = json.dumps(
        [
            {"token": laptop.secret.reveal(), "url": "https://git.example/a"},
            {"token": new_token().reveal()},
            {"note": f"see {script.secret.reveal()}, {script.secret.reveal()}."},
        ]
    )
    found = report(registry, text)
    assert found.found == 3
    assert {each.token.id: each.leaked for each in found.revoked} == {
        laptop.token.id: True, child.token.id: False, grandchild.token.id: False, script.token.id: True
    }  # fmt: skip
    for issued in (laptop, child, grandchild, script):
        assert stored(registry, issued.token).revoked_at == registry.now
    assert stored(registry, kept.token).revoked_at is None
    mailed = sorted(told(registry))
    assert [each[:2] for each in mailed] == [
        ("ann@example.org", "A token of yours was revoked"),
        ("ben@example.org", "A token of yours was revoked"),
    ]
    assert f"“child” (id {child.token.id}), “grandchild” (id {grandchild.token.id})" in mailed[0][2]
    assert "sublet_" not in str(mailed)
    before = registry.dump()
    assert report(registry, text) == LeakReport(3, ())
    for text in ("", "sublet_", "a" * 64, "\x00\ufffd"):
        assert report(registry, text) == LeakReport(0, ())
    assert registry.dump() == before
    assert registry.doctor() == []


def test_the_tokens_of_a_leaked_token_that_is_revoked_already_are_revoked_too(registry: Registry) -> None:
    laptop = registry.write(issue_token, OPERATOR, "ann@example.org", "laptop")
    child = registry.write(create_token, acting(laptop.token), "child", SCOPES)
    registry.write(revoke_token, OPERATOR, laptop.token.id)
    for revoked in ([child.token.id], []):
        assert [each.token.id for each in report(registry, laptop.secret.reveal()).revoked] == revoked
    assert [each[0] for each in told(registry)] == ["ann@example.org"]


def test_the_tokens_that_a_leaked_token_has_rotated_are_revoked_too(registry: Registry) -> None:
    laptop, other, kept = (
        registry.write(issue_token, OPERATOR, "ann@example.org", name) for name in ("laptop", "other", "kept")
    )
    for each in (other, laptop):
        registry.write(rotate_token, acting(laptop.token), str(each.token.id))
    registry.write(rotate_token, acting(kept.token), str(kept.token.id))
    found = report(registry, laptop.secret.reveal()).revoked
    assert {each.token.id: each.leaked for each in found} == {laptop.token.id: True, other.token.id: False}


def test_a_former_secret_counts_while_it_is_valid(registry: Registry) -> None:
    for hours, revoked in ((2, 0), (0, 1)):
        issued = registry.write(issue_token, OPERATOR, "ann@example.org", "rotated")
        registry.write(rotate_token, acting(issued.token), str(issued.token.id))
        registry.advance(hours=hours)
        assert len(report(registry, issued.secret.reveal()).revoked) == revoked
