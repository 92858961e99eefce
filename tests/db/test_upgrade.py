"""A registry of an older schema is migrated with all its rows, and its names keep their dates."""

import json
import shutil
from pathlib import Path

import pytest
from alembic import command
from alembic.config import Config
from sqlalchemy import Engine, insert, inspect, select, text, update
from sqlalchemy.pool import NullPool
from typer.testing import CliRunner

import sublet.migrations
from sublet import audit
from sublet.accounts.authenticate import authenticate
from sublet.accounts.find import find_user
from sublet.accounts.membership_store import list_members
from sublet.accounts.store import users
from sublet.accounts.tokens.issue import issue_token
from sublet.accounts.users import UserEdit, add_user, edit_user, suspend_user
from sublet.cli.main import app
from sublet.db import Tx, sqlite_engine
from sublet.db.connect import postgresql_engine
from sublet.dns.types import GlueInput
from sublet.doctor.notices import list_notices
from sublet.errors import SubdomainUnavailable
from sublet.migrations import upgrade
from sublet.registry.copy_store import NOT_COPIED
from sublet.registry.delete_user import delete_user
from sublet.restrictions import SCOPES, Restrictions
from sublet.schema import metadata
from sublet.schema_revision import needed_revision
from sublet.subdomains.delete import delete
from sublet.subdomains.find import find_in_account
from sublet.subdomains.transfer import transfer
from sublet.subdomains.transfers.accept import accept
from sublet.subdomains.transfers.push import push
from support.dangling_delegations import store_unchecked
from support.registry import OPERATOR, Prepared, open_registry

NAMES = ("blog.example.test", "modern.example.test")
Rows = dict[str, list[dict[str, object]]]


@pytest.mark.slow
def test_names_of_the_first_schema_get_their_dates(
    database_url: str, sqlite_registry: Prepared, tmp_path: Path
) -> None:
    shutil.copy(sqlite_registry.url.removeprefix("sqlite:///"), tmp_path / "filled.db")
    with open_registry(f"sqlite:///{tmp_path}/filled.db", sqlite_registry) as filled:
        for name in NAMES:
            filled.register(name, nameservers=("ns1.provider.example",))
        filled.publish()
        rows = filled.read(_all_rows)
    _old_schema(database_url, rows, "0001")
    assert upgrade(database_url) == ("0001", needed_revision())
    with open_registry(database_url, sqlite_registry) as registry:
        registry.now = filled.now
        assert registry.doctor() == []
        assert registry.sweep().done["looked"] == len(NAMES)
        done = registry.live(days=440)
        assert done["expired"] == done["trashed"] == done["released"] == len(NAMES)
        assert registry.doctor() == []


def test_tokens_of_the_ninth_schema_work_as_before(
    database_url: str, sqlite_registry: Prepared, tmp_path: Path
) -> None:
    """They have no restrictions besides their scopes, and no scopes that were added later."""
    scopes = [scope for scope in SCOPES if scope not in ("tokens:write", "organization:write")]
    shutil.copy(sqlite_registry.url.removeprefix("sqlite:///"), tmp_path / "filled.db")
    with open_registry(f"sqlite:///{tmp_path}/filled.db", sqlite_registry) as filled:
        issued = filled.write(issue_token, OPERATOR, "ann@example.org", "old", scopes=scopes)
        rows = filled.read(_all_rows)
    _old_schema(database_url, rows, "0009")
    upgrade(database_url)
    with open_registry(database_url, sqlite_registry) as registry:
        registry.now = filled.now
        found = registry.run(authenticate(registry.db, issued.secret))
        assert found.token == issued.token
        assert found.token.restrictions == Restrictions(scopes=tuple(scopes))
        assert registry.doctor() == []


def test_users_become_members_of_their_organizations_and_nothing_else_changes(
    database_url: str, sqlite_registry: Prepared, tmp_path: Path
) -> None:
    """The oldest user of an organization that isn't suspended becomes its owner. A deleted one is no member."""
    shutil.copy(sqlite_registry.url.removeprefix("sqlite:///"), tmp_path / "filled.db")
    with open_registry(f"sqlite:///{tmp_path}/filled.db", sqlite_registry) as filled:
        filled.register(NAMES[0])
        for name in ("cleo", "dan", "eve"):
            member = filled.write(add_user, OPERATOR, f"{name}@example.org", name, "ben@example.org")
            filled.users[name] = member.user.id
        filled.write(suspend_user, OPERATOR, "ben@example.org")
        filled.write(delete_user, OPERATOR, "cleo@example.org", confirmed=True)
        issued = filled.write(issue_token, OPERATOR, "ann@example.org", "old")
        rows = filled.read(_all_rows)
    _old_schema(database_url, rows, "0011")
    assert upgrade(database_url) == ("0011", needed_revision())
    with open_registry(database_url, sqlite_registry) as registry:
        registry.now, registry.users = filled.now, filled.users
        of_ben = registry.organizations["ben"]
        members = registry.read(list_members, of_ben)
        roles = {each.user.id: each.role for each in members}
        users = registry.users
        assert roles == {users["ben"]: "member", users["dan"]: "owner", users["eve"]: "member"}
        found = registry.run(authenticate(registry.db, issued.secret))
        assert (found.token, found.role, found.holder) == (issued.token, None, found.user)
        assert found.organization.id == registry.organizations["ann"]
        assert registry.read(find_in_account, registry.actor(), NAMES[0]).user_id == users["ann"]
        same = ("organizations", "subdomains", "transfers", "tickets")
        after = registry.read(_all_rows)
        assert [after[each] for each in same] == [rows[each] for each in same]
        # Events from before 0014 don't say whose object they are about.
        events = [{**each, "owner_id": None} for each in rows["audit_events"]]
        assert after["audit_events"] == events
        assert registry.doctor() == []


def _all_rows(tx: Tx) -> Rows:
    return {
        table.name: [dict(row) for row in tx.connection.execute(select(table)).mappings()]
        for table in metadata.sorted_tables
    }


def _old_schema(url: str, rows: Rows, revision: str) -> None:
    """Create a database of an older schema with these rows, without newer columns."""
    engine = _engine(url)
    with engine.execution_options(sublet_begin="BEGIN IMMEDIATE").begin() as connection:
        config = Config()
        config.set_main_option("script_location", str(Path(sublet.migrations.__file__).parent))
        config.attributes["connection"] = connection
        command.upgrade(config, revision)
        there = inspect(connection)
        for seeded in ("ledger_accounts", "clockwork", "signing_keys"):
            if there.has_table(seeded):
                connection.execute(text(f"DELETE FROM {seeded}"))  # noqa: S608 - our own names
        for table in metadata.sorted_tables:
            if not there.has_table(table.name) or table.name in NOT_COPIED:
                continue
            known = {column["name"] for column in there.get_columns(table.name)}
            for row in rows[table.name]:
                values = {name: value for name, value in row.items() if name in known}
                connection.execute(insert(table).values(values).inline())
            if url.startswith("postgresql:") and "id" in known:
                sequence = f"pg_get_serial_sequence('{table.name}', 'id')"
                query = f"SELECT setval({sequence}, max(id)) FROM {table.name} HAVING max(id) > 0"  # noqa: S608 - our own names
                connection.execute(text(query))
    engine.dispose()


def _engine(url: str) -> Engine:
    if url.startswith("sqlite:///"):
        return sqlite_engine(url)
    return postgresql_engine(url, poolclass=NullPool)


def test_nameservers_of_the_fourth_schema_are_indexed(
    database_url: str, sqlite_registry: Prepared, tmp_path: Path
) -> None:
    """A name that depends on one in the trash, and one that depends on a name that no user holds."""
    shutil.copy(sqlite_registry.url.removeprefix("sqlite:///"), tmp_path / "filled.db")
    with open_registry(f"sqlite:///{tmp_path}/filled.db", sqlite_registry) as filled:
        label = filled.register("gone.example.test", nameservers=("ns1.provider.example",))
        hosts = ("ns1.gone.example.test", "ns1.ada.example.test")
        glue = (GlueInput("ns1.ada.example.test", "8.8.8.8"),)
        ada = filled.register("ada.example.test", "ben", nameservers=hosts, glue=glue)
        bob = filled.register("bob.example.test", "ben", nameservers=("ns1.provider.example",))
        filled.write(delete, filled.actor(), "gone.example.test")
        filled.publish()
        after = ("ns1.never.example.test",)
        filled.write(store_unchecked, bob, *after)
        filled.publish()
        rows = filled.read(_all_rows)
    _old_schema(database_url, rows, "0004")
    upgrade(database_url)
    with open_registry(database_url, sqlite_registry) as registry:
        registry.now = filled.now
        assert registry.doctor() == []
        notices = registry.read(list_notices)
        assert [(each.notice, each.object_id) for each in notices] == [
            ("nameserver_in_trash", ada.id),
            ("nameserver_unregistered", bob.id),
        ]
        assert registry.sweep().done["nameservers_told"] == 1
        with pytest.raises(SubdomainUnavailable):
            registry.register("never.example.test")
        registry.live(days=31)
        assert registry.subdomain(ada.id).delegation.nameservers == ("ns1.ada.example.test",)
        assert registry.subdomain(bob.id).delegation.nameservers == after
        assert registry.subdomain(label.id).purged_at is not None
        assert registry.doctor() == []


def test_addresses_get_their_canonical_form_and_collisions_are_reported(
    database_url: str, sqlite_registry: Prepared, tmp_path: Path
) -> None:
    """No user loses anything. Of two spellings of a mailbox, the canonical one keeps it, or else the oldest gets it."""
    shutil.copy(sqlite_registry.url.removeprefix("sqlite:///"), tmp_path / "filled.db")
    spellings = {
        "cleo": "cleo@b\u00fccher.example",
        "dan": "dan@inbox.example.",
        "dan2": "dan@\uff49nbox.example",
        "eve": "eve@inbox\u3002example",
        "eve2": "eve@inbox.example",
        "ann": "ann@example.org",
    }
    with open_registry(f"sqlite:///{tmp_path}/filled.db", sqlite_registry) as filled:
        for name, spelling in spellings.items():
            if name != "ann":
                filled.add_user(name)
                user_id = filled.users[name]
                filled.write(lambda tx, of=user_id, to=spelling: store_spelling(tx, of, to))  # type: ignore[misc]
        filled.register(NAMES[0])
        offered = filled.write(
            push, filled.actor(), NAMES[0], "to@b\u00fccher.example", "https://names.example.net"
        )
        change = "UPDATE name_transfers SET recipient_email = :spelling"
        filled.write(lambda tx: tx.connection.execute(text(change), {"spelling": spellings["cleo"]}))
        filled.register(NAMES[1], "dan2")
        rows = filled.read(_all_rows)
    _old_schema(database_url, rows, "0019")
    told = CliRunner().invoke(app, ["migrate", "--json"], env={"SUBLET_DATABASE_URL": database_url})
    assert told.exit_code == 0, told.output
    kept = {filled.users["dan2"], filled.users["eve"]}
    assert {each["object_id"] for each in json.loads(told.stdout)["other_spellings"]} == kept
    with open_registry(database_url, sqlite_registry) as registry:
        registry.now, registry.users = filled.now, filled.users
        stored = {name: registry.read(find_user, str(registry.users[name])).email for name in spellings}
        assert stored == {
            **spellings,
            "cleo": "cleo@xn--bcher-kva.example",
            "dan": "dan@inbox.example",
        }
        assert registry.read(find_user, spellings["dan2"]).id == registry.users["dan"]
        registry.write(accept, registry.actor("cleo"), str(offered.id), free_quota=9)
        # The events of the migration have the real time, which is later than the test's.
        found = [each for each in registry.doctor() if each.invariant != "audit_is_past"]
        assert {(each.invariant, each.object_id) for each in found} == {
            ("address_is_canonical", each) for each in kept
        }
        # What the operator does: give one user another address, move the names of the other, and delete it.
        registry.write(edit_user, OPERATOR, str(registry.users["eve"]), UserEdit(email="eva@inbox.example"))
        registry.write(transfer, OPERATOR, NAMES[1], str(registry.users["dan"]))
        registry.write(delete_user, OPERATOR, str(registry.users["dan2"]), confirmed=True)
        assert {each.invariant for each in registry.doctor()} == {"audit_is_past"}


def store_spelling(tx: Tx, user_id: int, spelling: str) -> None:
    """Store an address as older versions did, with its event."""
    tx.connection.execute(update(users).where(users.c.id == user_id).values(email=spelling))
    audit.record(tx, OPERATOR, "user.edit", user_id, after={"email": spelling})
