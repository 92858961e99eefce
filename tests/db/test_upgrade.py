"""A registry of an older schema is migrated with all its rows, and its names keep their dates."""

import shutil
from pathlib import Path

import pytest
from alembic import command
from alembic.config import Config
from sqlalchemy import Engine, insert, inspect, select, text
from sqlalchemy.pool import NullPool

import sublet.migrations
from sublet.accounts.authenticate import authenticate
from sublet.accounts.membership_store import list_members
from sublet.accounts.tokens import issue_token
from sublet.accounts.users import add_user, suspend_user
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
