"""`Database.fetch`: a query from the event loop has the same result as in a transaction, also after a lost
connection.
"""

import asyncio
from collections.abc import Iterator
from typing import Any, LiteralString

import psycopg
import pytest
from sqlalchemy import Column, Integer, MetaData, String, Table, bindparam, func, select

from sublet.accounts import store as account_store
from sublet.accounts.tokens.issue import digest, issue_token, revoke_token
from sublet.db import Query
from sublet.db.postgresql import QUERIES, PostgresqlDatabase
from sublet.errors import Unavailable
from sublet.subdomains import store
from support.postgresql import fresh_database
from support.postgresql_table import ask, prepared_things, tell
from support.registry import OPERATOR, Registry

numbers = Table("numbers", MetaData(), Column("id", Integer, primary_key=True), Column("name", String))
NAME_OF = Query(
    select(numbers.c.name).where(numbers.c.id == bindparam("number")),
    lambda rows: None if not rows else str(rows[0][0]),
)
BACKEND = Query(select(func.pg_backend_pid()), lambda rows: int(rows[0][0]))
SLEEP = Query(select(func.pg_sleep(600)), lambda _: None)
NAMES = 200
END_ALL_OTHERS = (
    "SELECT pg_terminate_backend(pid) FROM pg_stat_activity WHERE datname = current_database() AND pid <> "
    "pg_backend_pid()"
)


@pytest.fixture(scope="module")
def prepared(postgresql_server: str) -> Iterator[str]:
    with prepared_things(postgresql_server) as url:
        change(url, "CREATE TABLE numbers (id int PRIMARY KEY, name text)")
        change(url, "INSERT INTO numbers SELECT g, 'name ' || g FROM generate_series(1, 200) AS g")
        yield url


@pytest.fixture
def url(postgresql_server: str, prepared: str) -> Iterator[str]:
    with fresh_database(postgresql_server, like=prepared) as made:
        yield made


def change(url: str, statement: LiteralString) -> None:
    with psycopg.connect(url, autocommit=True) as connection:
        connection.execute(statement)


def test_a_query_has_the_same_result_fetched_and_in_a_transaction(registry: Registry) -> None:
    """The query has a column of every type: text, number, instant, JSON and boolean."""
    registered = registry.register("blog.example.test", nameservers=("ns1.a.example", "ns2.a.example"))
    issued = registry.write(issue_token, OPERATOR, "ann@example.org", "laptop")
    ann, ben = registry.users["ann"], registry.users["ben"]
    cases: tuple[tuple[Query[Any], dict[str, object]], ...] = (
        (store.OWN_BY_ID, {"owner_id": ann, "subdomain_id": registered.id}),
        (store.OWN_BY_NAME, {"owner_id": ann, "name": "blog.example.test"}),
        (store.OWN_BY_NAME, {"owner_id": ben, "name": "blog.example.test"}),
        (
            account_store.REGISTRANT_BY_FORMER_DIGEST,
            {"token_digest": digest(issued.secret.reveal()), "at": registry.now},
        ),
        (account_store.REGISTRANT_BY_DIGEST, {"token_digest": digest(issued.secret.reveal())}),
    )
    for query, parameters in cases:
        assert registry.run(registry.db.fetch(query, **parameters)) == registry.read(query.run, **parameters)
        assert registry.run(registry.db.fetch_remembered(query, **parameters)) == registry.read(
            query.run, **parameters
        )


def test_a_remembered_result_is_asked_again_after_a_commit(registry: Registry) -> None:
    issued = registry.write(issue_token, OPERATOR, "ann@example.org", "laptop")

    def ask() -> Any:
        by = {"token_digest": digest(issued.secret.reveal())}
        return registry.run(registry.db.fetch_remembered(account_store.REGISTRANT_BY_DIGEST, **by))

    before = ask()
    assert before.token == issued.token
    assert (ask() is before) == registry.url.startswith("sqlite:")  # PostgreSQL is asked each time
    registry.write(revoke_token, OPERATOR, issued.token.id)
    assert ask().token.revoked_at == registry.now


def test_concurrent_queries_get_their_own_results(url: str) -> None:
    async def story(database: PostgresqlDatabase) -> None:
        asked = [1 + number % (NAMES + 1) for number in range(600)]
        found = await asyncio.gather(*(database.fetch(NAME_OF, number=number) for number in asked))
        assert found == [f"name {number}" if number <= NAMES else None for number in asked]

    tell(url, story)


def test_concurrent_queries_share_a_few_connections(url: str) -> None:
    async def story(database: PostgresqlDatabase) -> None:
        backends = await asyncio.gather(*(database.fetch(BACKEND) for _ in range(100)))
        assert 1 < len(set(backends)) <= QUERIES
        assert await database.fetch(BACKEND) in backends

    tell(url, story)


def test_a_query_that_finds_no_free_connection_in_time_is_refused(
    url: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("sublet.db.postgresql.BEGIN_SECONDS", 0.2)

    async def story(database: PostgresqlDatabase) -> None:
        sleeping = [asyncio.create_task(database.fetch(SLEEP)) for _ in range(QUERIES)]
        await asyncio.sleep(0)  # each takes a connection
        with pytest.raises(Unavailable, match="all connections are in use"):
            await database.fetch(NAME_OF, number=1)
        for each in sleeping:
            each.cancel()
        await asyncio.wait(sleeping)
        assert await database.fetch(NAME_OF, number=1) == "name 1"

    tell(url, story)


def test_a_query_is_repeated_after_a_lost_connection(url: str) -> None:
    async def story(database: PostgresqlDatabase) -> None:
        assert await database.fetch(NAME_OF, number=1) == "name 1"
        queries = [asyncio.create_task(database.fetch(NAME_OF, number=1 + n % NAMES)) for n in range(300)]
        await asyncio.to_thread(ask, url, END_ALL_OTHERS)
        assert await asyncio.gather(*queries) == [f"name {1 + n % NAMES}" for n in range(300)]
        assert await database.fetch(NAME_OF, number=3) == "name 3"

    tell(url, story)


def test_after_a_lost_connection_the_next_query_opens_another(url: str) -> None:
    """Another connection shows that a standby took over; the event loop's own may still lead to the old
    server.
    """

    async def story(database: PostgresqlDatabase) -> None:
        before = await database.fetch(BACKEND)
        assert await database.fetch(BACKEND) == before
        writer = await database.write(BACKEND.run)
        await asyncio.to_thread(ask, url, f"SELECT pg_terminate_backend({writer})")
        await database.write(BACKEND.run)
        assert await database.fetch(BACKEND) != before

    tell(url, story)


def test_an_unreachable_database_is_a_refusal(url: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("sublet.db.postgresql.LOST_SECONDS", 0.2)

    async def story(database: PostgresqlDatabase) -> None:
        name = url.rpartition("/")[2]
        assert await database.fetch(NAME_OF, number=1) == "name 1"
        server = url.removesuffix(name) + "postgres"
        await asyncio.to_thread(change, server, f'ALTER DATABASE "{name}" ALLOW_CONNECTIONS false')
        of_it = f"SELECT pg_terminate_backend(pid) FROM pg_stat_activity WHERE datname = '{name}'"  # noqa: S608
        await asyncio.to_thread(ask, server, of_it)
        with pytest.raises(Unavailable):
            await database.fetch(NAME_OF, number=1)
        await asyncio.to_thread(change, server, f'ALTER DATABASE "{name}" ALLOW_CONNECTIONS true')
        assert await database.fetch(NAME_OF, number=1) == "name 1"

    tell(url, story)
