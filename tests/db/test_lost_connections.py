"""The connection to PostgreSQL is lost at every point of a write: the write takes effect once with its
answer, or its outcome is unknown.
"""

import asyncio
from collections.abc import Iterator

import psycopg
import pytest
from sqlalchemy import func, select, text
from sqlalchemy.exc import DBAPIError, IntegrityError

from sublet.db import Prepared, Tx, connect, postgresql
from sublet.db.connect import ConnectionSettings, LosesWrites
from sublet.db.marks import Mark
from sublet.db.postgresql import PostgresqlDatabase
from sublet.errors import Conflict, Unavailable
from support.postgresql import fresh_database
from support.postgresql_proxy import Proxy, run_proxy
from support.postgresql_table import (
    UNKNOWN,
    add,
    ask,
    commits_waiting,
    has_standby,
    ids,
    meanwhile,
    prepared_things,
    tell,
    waiting_pids,
)
from support.waiting import wait_until

COMMIT = b"COMMIT"
INSERT = b"INSERT INTO things"
PID = Prepared(select(func.pg_backend_pid()))


@pytest.fixture(scope="module")
def prepared(postgresql_server: str) -> Iterator[str]:
    with prepared_things(postgresql_server) as url:
        yield url


@pytest.fixture
def url(postgresql_server: str, prepared: str) -> Iterator[str]:
    with fresh_database(postgresql_server, like=prepared) as made:
        yield made


@pytest.fixture
def proxy(url: str) -> Iterator[Proxy]:
    with run_proxy(url) as running:
        yield running


@pytest.mark.parametrize("lost_at", [b"BEGIN", b"INSERT INTO commit_marks", INSERT, COMMIT])
@pytest.mark.parametrize("point", ["before", "after"])
def test_a_write_has_one_effect_at_each_point_of_a_lost_connection(
    url: str, proxy: Proxy, lost_at: bytes, point: str
) -> None:
    async def story(database: PostgresqlDatabase) -> None:
        lost = proxy.lose(lost_at, point)
        answer = await database.write(add)
        assert lost.reached.is_set()
        assert ids(url) == [answer]
        assert await database.write(add) > answer

    tell(proxy.url, story)
    assert len(ids(url)) == 2


def test_without_the_commit_mark_a_write_takes_effect_twice(
    url: str, proxy: Proxy, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The broken twin: the fault that the test above must find."""
    monkeypatch.setattr(Mark, "add", lambda _mark, _connection: None)

    async def story(database: PostgresqlDatabase) -> None:
        proxy.lose(COMMIT, "after")
        await database.write(add)

    tell(proxy.url, story)
    assert len(ids(url)) == 2


def test_a_late_commit_takes_effect_instead_of_the_next_attempt(url: str, proxy: Proxy) -> None:
    async def story(database: PostgresqlDatabase) -> None:
        held = proxy.lose(COMMIT, "hold")

        def release() -> None:
            # The next attempt waits for the mark that the first one still holds.
            wait_until(lambda: len(waiting_pids(url, "Lock")) == 1)
            assert ids(url) == []
            held.released.set()

        with meanwhile(release):
            answer = await database.write(add)
        assert held.answered.is_set()
        assert ids(url) == [answer] == [1]

    tell(proxy.url, story)


def test_an_attempt_that_never_ends_is_reported_as_unknown(
    url: str, proxy: Proxy, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(connect, "LOCK_SECONDS", 1)

    async def story(database: PostgresqlDatabase) -> None:
        held = proxy.lose(COMMIT, "hold")
        with pytest.raises(Unavailable, match=UNKNOWN) as raised:
            await database.write(add)
        assert raised.value.retry_after_seconds == 1
        assert ids(url) == []
        held.released.set()
        assert held.answered.wait(60)
        assert ids(url) == [1]  # so the answer "unknown" was right

    tell(proxy.url, story)


@pytest.mark.parametrize("state", ["53100", "40001"])
def test_a_refused_confirmation_does_not_undo_the_commit(url: str, proxy: Proxy, state: str) -> None:
    """If the second COMMIT fails, by a full disk or an error of ours, the first one still holds."""
    with psycopg.connect(url, autocommit=True) as connection:
        connection.execute(
            "CREATE FUNCTION refuse() RETURNS trigger LANGUAGE plpgsql AS "
            f"$$ BEGIN RAISE EXCEPTION 'refused' USING ERRCODE = '{state}'; END $$"
        )
        connection.execute(
            "CREATE CONSTRAINT TRIGGER refuse AFTER UPDATE ON commit_marks DEFERRABLE INITIALLY DEFERRED "
            "FOR EACH ROW EXECUTE FUNCTION refuse()"
        )

    async def story(database: PostgresqlDatabase) -> None:
        proxy.lose(COMMIT, "after")
        with pytest.raises(Unavailable, match=UNKNOWN):
            await database.write(add)
        assert ids(url) == [1]

    tell(proxy.url, story)


def test_a_server_that_may_lose_writes_doesnt_settle_a_commit(
    url: str, proxy: Proxy, monkeypatch: pytest.MonkeyPatch
) -> None:
    def refuse(*_: object, **__: object) -> None:
        raise LosesWrites("fsync is off")

    async def story(database: PostgresqlDatabase) -> None:
        await database.write(lambda _: None)
        monkeypatch.setattr(ConnectionSettings, "_check", refuse)
        proxy.lose(COMMIT, "after")
        with pytest.raises(Unavailable, match=UNKNOWN):
            await database.write(add)
        assert ids(url) == [1]

    tell(proxy.url, story)


def test_a_retry_while_the_database_closes_is_refused(url: str, proxy: Proxy) -> None:
    async def story(database: PostgresqlDatabase) -> None:
        loop = asyncio.get_running_loop()
        closing = []

        def begin_to_close(tx: Tx) -> int:
            closing.append(asyncio.run_coroutine_threadsafe(database.close(), loop))
            asyncio.run_coroutine_threadsafe(asyncio.sleep(0), loop).result()  # the close has begun
            return add(tx)

        proxy.lose(COMMIT, "after")
        with pytest.raises(Unavailable, match=UNKNOWN):
            await database.write(begin_to_close)
        await asyncio.wrap_future(closing[0])
        assert ids(url) == [1]
        for call in (database.read, database.write):
            with pytest.raises(Unavailable) as raised:
                await call(add)
            assert UNKNOWN not in raised.value.message

    tell(proxy.url, story)


def test_a_read_is_repeated(url: str, proxy: Proxy) -> None:
    async def story(database: PostgresqlDatabase) -> None:
        await database.write(add)
        for point in ("before", "after"):
            proxy.lose(b"SELECT count(*)", point)
            count = await database.read(
                lambda tx: tx.connection.execute(text("SELECT count(*) FROM things")).scalar_one()
            )
            assert count == 1
        assert proxy.rules == []

    tell(proxy.url, story)


def test_a_repeated_read_logs_no_error(url: str, caplog: pytest.LogCaptureFixture) -> None:
    """SQLAlchemy doesn't know that the connection is lost, because the driver runs the statement."""
    pids: set[int] = set()

    def read(tx: Tx) -> int:
        pid = int(PID.value(tx))
        if not pids:
            with psycopg.connect(url, autocommit=True) as other:
                other.execute("SELECT pg_terminate_backend(%s, 60000)", (pid,))
        pids.add(pid)
        return int(PID.value(tx))

    async def story(database: PostgresqlDatabase) -> None:
        assert await database.read(read) in pids

    tell(url, story)
    assert len(pids) == 2
    assert caplog.records == []


def test_an_unreachable_database_is_reported(url: str, proxy: Proxy) -> None:
    async def story(database: PostgresqlDatabase) -> None:
        for _ in range(1000):
            proxy.lose(b"user", "before")  # no new connection
        lost = proxy.lose(INSERT, "before")
        with pytest.raises(Unavailable) as raised:
            await database.write(add)
        assert lost.reached.is_set()
        assert UNKNOWN not in raised.value.message  # no commit was sent
        assert raised.value.retry_after_seconds == 1
        proxy.rules.clear()
        assert await database.write(add)

    tell(proxy.url, story)


def test_only_unique_violations_are_retried(url: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(postgresql, "BEGIN_SECONDS", 60)  # all retries take less, also on a busy machine
    calls: list[str] = []

    def refuse(tx: Tx) -> None:
        calls.append("refuse")
        add(tx, "refused")
        raise Conflict("no")

    def violate(tx: Tx) -> None:
        calls.append("violate")
        add(tx, "one")
        add(tx, "one")

    def fail(tx: Tx) -> None:
        calls.append("fail")
        tx.connection.execute(text("SELECT 1 FROM no_such_table"))

    def hide(tx: Tx) -> None:
        calls.append("hide")
        with pytest.raises(IntegrityError):
            violate(tx)

    async def story(database: PostgresqlDatabase) -> None:
        for fn, error in ((refuse, Conflict), (violate, IntegrityError), (fail, DBAPIError)):
            with pytest.raises(error):
                await database.write(fn)
        # PostgreSQL would answer the COMMIT without an error.
        with pytest.raises(RuntimeError, match="its error was caught"):
            await database.write(hide)
        with pytest.raises(DBAPIError):
            await database.read(add)  # a function for reading that writes
        # Another transaction may have stored the same value, which the next attempt sees.
        attempts = ["violate"] * postgresql.CONTENTIONS_MAX
        assert calls == ["refuse", *attempts, "fail", "hide", "violate"]
        assert ids(url) == ask(url, "SELECT id FROM commit_marks") == []

    tell(url, story)


def test_a_lock_timeout_and_a_statement_timeout_are_reported(
    url: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(connect, "LOCK_SECONDS", 1)
    attempts: list[int] = []

    def wait_for_lock(tx: Tx) -> None:
        attempts.append(1)
        tx.connection.execute(text("LOCK TABLE things"))

    def sleep(tx: Tx) -> None:
        attempts.append(1)
        tx.connection.execute(text("SELECT pg_sleep(600)"))

    async def story(database: PostgresqlDatabase) -> None:
        with psycopg.connect(url) as holding:
            holding.execute("LOCK TABLE things")
            for fn in (wait_for_lock, sleep):
                with pytest.raises(Unavailable) as raised:
                    await database.write(fn)
                assert UNKNOWN not in raised.value.message
        with pytest.raises(Unavailable):
            await database.read(sleep)
        assert len(attempts) == 3  # none was retried
        assert await database.write(add)

    tell(url, story, statement_seconds=2)


def _set_read_only(server_url: str, url: str, value: str) -> None:
    name = url.rpartition("/")[2]
    with psycopg.connect(server_url, autocommit=True) as connection:
        connection.execute(f"ALTER DATABASE {name} SET default_transaction_read_only = {value}")


def test_a_read_only_server_is_left_for_a_writable_one(url: str, postgresql_server: str) -> None:
    async def story(database: PostgresqlDatabase) -> None:
        with pytest.raises(Unavailable) as raised:
            await database.write(add)
        assert UNKNOWN not in raised.value.message
        assert await database.read(lambda tx: tx.connection.execute(text("SELECT 1")).scalar_one()) == 1
        # From here on new connections lead to the other server; existing ones don't.
        _set_read_only(postgresql_server, url, "off")
        assert [await database.write(add)] == ids(url)

    _set_read_only(postgresql_server, url, "on")
    tell(url, story)


@pytest.mark.parametrize("comes_back", [False, True])
def test_a_commit_without_its_standby_is_not_acknowledged(url: str, *, comes_back: bool) -> None:
    async def story(database: PostgresqlDatabase) -> None:
        await database.write(lambda _: None)
        has_standby(url, "nobody")

        def give_up() -> None:
            wait_until(lambda: len(commits_waiting(url)) == 1)
            first = commits_waiting(url)[0]
            ask(url, f"SELECT pg_cancel_backend({first})")
            if comes_back:  # the next attempt finds the mark, and must confirm the commit
                wait_until(lambda: bool(ask(url, "SELECT id FROM things")) and len(commits_waiting(url)) == 1)
                has_standby(url, "")

        with meanwhile(give_up):
            if comes_back:
                assert [await database.write(add)] == ids(url)
            else:
                with pytest.raises(Unavailable, match=UNKNOWN):
                    await database.write(add)
        has_standby(url, "")
        assert len(ids(url)) == 1

    try:
        tell(url, story)
    finally:
        has_standby(url, "")
