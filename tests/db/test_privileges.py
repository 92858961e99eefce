"""The roles of `sublet grants` on a real PostgreSQL: the service works with them, and everything else is
refused.
"""

import asyncio
import json
import re
import shlex
import subprocess
import sys
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import psycopg
import pytest
from sqlalchemy import select
from typer.testing import CliRunner

from docs.test_api_page import check_examples, primary_and_settings, update_settings
from docs.test_cli_page import REFUSED_EXAMPLES, examples, prepare
from sublet.cli.main import app
from sublet.db import open_database
from sublet.db.marks import DELETE_OLD
from sublet.health.store import find_followed
from sublet.mail.store import mails
from sublet.processes.model import Process
from sublet.processes.processes import announce
from sublet.registry.copy_store import list_copied, list_other
from sublet.registry.privileges import ROLES
from sublet.schema import APPEND_ONLY, metadata
from sublet.schema_revision import needed_revision
from sublet.subdomains.sweep import runner
from sublet.subdomains.sweep import store as sweep_store
from support.authenticator import Authenticator
from support.browsers import Browser
from support.postgresql import fresh_database
from support.postgresql_proxy import Proxy, run_proxy
from support.rolling_child import notify
from support.running_service import Registrant, RunningService, running_service
from support.service_on_primary import settings_file
from support.service_with_logins import Logins, logins, split_service
from support.waiting import wait_until

pytestmark = pytest.mark.slow
OWNERS = ("init", "migrate", "copy", "backup", "restore", "serve", "grants")
"""Statements that the operator's role must not run."""
_WITH_A_USER = {"audit_events": ("reason", "before", "after", "address"), "transfers": ("description",)}
ERASABLE: dict[str, dict[str, tuple[str, ...]]] = {
    "operator": _WITH_A_USER,
    "api": _WITH_A_USER,
    "worker": {"audit_events": ("address",)},
}
"""The texts of append-only rows that a role may erase: with a user, and the worker old addresses."""


@pytest.fixture
def found(postgresql_server: str) -> Iterator[Logins]:
    with fresh_database(postgresql_server) as url, logins(url) as made:
        yield made


def test_grants_name_existing_tables_and_columns() -> None:
    tables = {each.name: set(each.columns.keys()) for each in (*list_copied(), *list_other())}
    assert tables.keys() == metadata.tables.keys()
    granted = {name for role in ROLES for name in role.grants} - {"alembic_version"}
    assert granted == tables.keys()
    for role in ROLES:
        for table, privileges in role.grants.items():
            assert privileges.keys() <= {"SELECT", "INSERT", "UPDATE", "DELETE"}
            for columns in privileges.values():
                assert set(columns) <= tables.get(table, set()), (role.name, table)
            if table in APPEND_ONLY:
                erasable = ERASABLE.get(role.name, {}).get(table, ())
                assert privileges.keys() <= {"SELECT", "INSERT", *(["UPDATE"] if erasable else [])}
                assert privileges.get("UPDATE", ()) == erasable
            if table in ("alembic_version", "schema_compatible_with"):
                assert privileges.keys() == {"SELECT"}


def test_the_command_prints_the_grants() -> None:
    done = subprocess.run(
        [sys.executable, "-m", "sublet.cli.main", "grants"], capture_output=True, text=True, check=True
    )
    assert done.stdout.startswith("BEGIN;\n")
    assert "GRANT SELECT, INSERT ON transfers TO sublet_worker;" in done.stdout
    assert "GRANT USAGE ON SEQUENCE transfers_id_seq TO sublet_worker;" in done.stdout
    assert "SEQUENCE users_id_seq TO sublet_worker" not in done.stdout, "the worker adds no users"


def test_the_service_works_with_a_login_for_each_part(
    found: Logins, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(runner, "POLL_SECONDS", 0.05)
    with (
        primary_and_settings(tmp_path) as (server, section),
        split_service(found, section, **update_settings(tmp_path)) as service,
    ):
        service.environment["SUBLET_CONFIG"] = str(settings_file(tmp_path, [section]))
        check_examples(service, server)
        member = service.add_user("new@example.org", credit_count=100)
        service.operator("domain", "offer", "example.test", "--mode", "plus", "--period-days", "60")
        service.register(
            member,
            "own.example.test",
            nameservers=["ns1.provider.example"],
            registration_mode="plus",
            confirm=True,
        )
        wait_until(lambda: service.delegation("own.example.test") == {"ns1.provider.example"})
        automatic = {"enabled": True, "max_credits": 50}
        assert (
            service.call(member, "PUT", "/subdomains/own.example.test/auto-renew", automatic).status_code
            == 200
        )
        _use_sessions(service, member)
        _notify(service, "own.example.test")
        # Reminders, automatic renewals, trash and purge. After an absence of a week the sweep would stop.
        for _ in range(30):
            service.clock.pass_time(days=6)
            wait_until(lambda: _is_idle(service))
        counted = service.read(_count)
        assert all(counted[name] for name in ("milestones", "mails", "terms", "forecasts")), counted
        assert service.doctor() == []


def _notify(service: RunningService, name: str) -> None:
    """Send a NOTIFY message, which makes a check due. The worker adds no names, because checks are off."""
    service.operator("domain", "edit", "example.test", "--automatic-ds", "all", "--csync")
    notify(service.dns, name, "CSYNC")

    def is_due() -> bool:
        found = service.read(lambda tx: find_followed(tx, name))
        return found is not None and found[2] is not None

    wait_until(is_due)
    service.operator("domain", "edit", "example.test", "--automatic-ds", "off", "--no-csync")


def _use_sessions(service: RunningService, member: Registrant) -> None:
    """Send each request that only a session may send."""
    origin = service.origin
    assert service.client.post(f"{origin}/auth/sessions", json={"email": member.email}).status_code == 202
    of_member = (mails.c.recipient == member.email) & mails.c.text.contains("your code is")
    newest = select(mails.c.text).where(of_member).order_by(mails.c.id.desc())
    text = service.read(lambda tx: str(tx.connection.execute(newest.limit(1)).scalar_one()))
    entered = {"email": member.email, "code": re.findall(r"your code is (\d{6})", text)[0]}
    signed_in = service.client.post(f"{origin}/auth/sessions/confirm", json=entered)
    browser = Browser(service, signed_in.headers["set-cookie"].partition("=")[2].partition(";")[0])
    authenticator = Authenticator(origin)
    asked = browser.call("POST", "/passkeys/challenge", {}).json()["public_key"]
    body = {"name": "phone", "credential": authenticator.create(asked)}
    passkey_id = browser.call("POST", "/passkeys", body).json()["passkey"]["id"]
    wanted = service.client.post(f"{origin}/auth/passkeys/challenge", json={}).json()["public_key"]
    used = {"credential": authenticator.get(wanted)}
    assert service.client.post(f"{origin}/auth/passkeys/confirm", json=used).status_code == 201
    for method, path, sent in (
        ("POST", "/passkeys/recovery", {}),
        ("DELETE", "/passkeys/recovery", {}),
        ("PATCH", "/me", {"name": "Newer", "email": "newer@example.org"}),
        ("DELETE", f"/passkeys/{passkey_id}", {}),
        ("DELETE", "/sessions", {}),
        ("DELETE", "/sessions/current", {}),
    ):
        answer = browser.call(method, path, sent)
        assert answer.status_code == 200, answer.text


def _is_idle(service: RunningService) -> bool:
    def ask(tx: Any) -> bool:
        state = sweep_store.find_sweep_state(tx)
        return state.seen_at is not None and (tx.now - state.seen_at).total_seconds() < 86_400

    if service.read(_clocks_went_apart):
        service.operator("sweep", "resume")
    return service.read(ask)


def _clocks_went_apart(tx: Any) -> bool:
    """The worker reads its two clocks one after the other, and the test may have advanced both in between."""
    state = sweep_store.find_sweep_state(tx)
    return not state.resumed and str(state.stopped_reason).startswith("The clock jumped")


def _count(tx: Any) -> dict[str, int]:
    return {table.name: len(tx.connection.execute(table.select()).all()) for table in metadata.sorted_tables}


def test_the_operators_commands_work_with_the_operators_login(
    found: Logins, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    with split_service(found) as service:
        address = service.settings.database_url
        (tmp_path / "sublet.toml").write_text(f'database_url = "{address}"\n')
        done: set[str] = set()
        ran = 0
        for words, line in examples():
            if words.split()[0] in OWNERS:
                continue
            prepare(service, line, done)
            sent = shlex.split(line)[1] if line.startswith("echo ") else None
            arguments = shlex.split(line.split(" | ")[-1])[1:]
            result = CliRunner().invoke(app, arguments, env={"SUBLET_DATABASE_URL": address}, input=sent)
            expected = 1 if words in REFUSED_EXAMPLES else 0
            assert result.exit_code == expected, (line, result.output, result.exception)
            ran += 1
        assert ran > 50
    refused = CliRunner().invoke(app, ["migrate", "--json"], env={"SUBLET_DATABASE_URL": address})
    assert json.loads(refused.stdout)["before"]  # the schema is up to date, so the role needs no privilege


def test_serve_works_with_its_own_login(found: Logins) -> None:
    with running_service(found.url("serve"), signup="open") as service:
        service.settings = replace(service.settings, database_url=found.owner)
        service.add_domain()
        member = service.add_user()
        service.register(member, "blog.example.test", nameservers=["ns1.provider.example"])
        wait_until(lambda: service.delegation("blog.example.test") == {"ns1.provider.example"})
        assert service.doctor() == []


def test_each_login_can_settle_a_lost_commit_and_delete_old_marks(found: Logins) -> None:
    async def announce_through(proxy: Proxy, role: str) -> None:
        database = open_database(proxy.url, may_lose_writes=True)
        try:
            lost = proxy.lose(b"COMMIT", "after")
            now, revision = database.now(), needed_revision()
            await database.write(announce, Process(f"{role}-1", role, "host-a", 1, "1", revision, now, now))
            assert lost.reached.is_set()
        finally:
            await database.close()

    with psycopg.connect(found.owner, autocommit=True) as owner:
        for role in [each.name for each in ROLES]:
            with run_proxy(found.url(role)) as proxy:
                asyncio.run(announce_through(proxy, role))
            assert owner.execute("SELECT id FROM processes").fetchall() == [(f"{role}-1",)], role
            owner.execute("DELETE FROM processes")
            owner.execute("UPDATE commit_marks SET made_at = now() - interval '11 minutes'")
            with psycopg.connect(found.url(role), autocommit=True) as connection:
                assert connection.execute(DELETE_OLD.encode()).rowcount > 0, role
            assert owner.execute("SELECT count(*) FROM commit_marks").fetchone() == (0,), role


CHANGES = ("UPDATE {} SET id = id", "DELETE FROM {}", "TRUNCATE {} CASCADE")
FORBIDDEN = {
    "api": (
        *(statement.format(table) for table in APPEND_ONLY for statement in CHANGES),
        "UPDATE alembic_version SET version_num = 'x'",
        "INSERT INTO schema_compatible_with VALUES ('x')",
        "UPDATE ledger_accounts SET user_id = 2",
        "DELETE FROM ledger_accounts",
        "UPDATE subdomains SET fqdn = 'x'",
        "UPDATE subdomains SET suspended_at = NULL",
        "DELETE FROM subdomains",
        "UPDATE users SET free_quota = 9",
        "UPDATE sessions SET user_id = 2",
        "UPDATE passkeys SET public_key = 'x'",
        "UPDATE tokens SET user_id = 2",
        "UPDATE tokens SET created_at = now()",
        "UPDATE tokens SET creator_token_id = 2",
        "DELETE FROM tokens",
        "UPDATE coupons SET value = 100",
        "UPDATE platform_domains SET domain = 'x'",
        "INSERT INTO zone_records (owner) VALUES ('x')",
        "DELETE FROM zone_records",
        "SELECT text FROM mails",
        "DELETE FROM name_transfers",
        "DELETE FROM tickets",
        "UPDATE clockwork SET resumed = true",
        "DELETE FROM leases",
        "UPDATE leases SET expires_at = now()",
        "ALTER TABLE transfers DISABLE TRIGGER ALL",
        "DROP TRIGGER transfers_no_update ON transfers",
        "CREATE TABLE mine (id int)",
        "SELECT setval('transfers_id_seq', 1)",
        "SET session_replication_role = replica",
    ),
    "worker": (
        "UPDATE transfers SET credits = 1",
        "DELETE FROM audit_events",
        "SELECT digest FROM tokens",
        "SELECT message FROM messages",
        "UPDATE coupons SET uses = 0",
        "UPDATE subdomains SET user_id = 2",
        "UPDATE mails SET user_id = 2",
        "UPDATE alembic_version SET version_num = 'x'",
    ),
    "dns": (
        "SELECT email FROM users",
        "SELECT user_id FROM subdomains",
        "UPDATE subdomains SET nameservers = '[]'",
        "SELECT digest FROM tokens",
        "UPDATE platform_domains SET serial = 1",
        "UPDATE leases SET expires_at = now()",
        "UPDATE zone_records SET rdata = 'x'",
        "INSERT INTO audit_events (action) VALUES ('x')",
    ),
    "operator": (
        "UPDATE transfers SET credits = 1",
        "UPDATE audit_events SET action = 'x'",
        "TRUNCATE audit_events",
        "DELETE FROM users",
        "UPDATE tokens SET digest = 'x'",
        "UPDATE subdomains SET fqdn = 'x'",
        "UPDATE alembic_version SET version_num = 'x'",
        "DROP TABLE mails",
    ),
}
_DENIED = re.compile(r"permission denied|must be owner")


def test_a_role_without_a_privilege_is_refused(found: Logins) -> None:
    for role, statements in FORBIDDEN.items():
        with psycopg.connect(found.url(role), autocommit=True) as connection:
            for statement in statements:
                with pytest.raises(psycopg.errors.InsufficientPrivilege, match=_DENIED):
                    connection.execute(statement.encode())
