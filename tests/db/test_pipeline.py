"""Questions that the event loop itself asks PostgreSQL: the right answer for everyone who asks, and what goes wrong there is asked elsewhere."""

import asyncio
from collections.abc import Awaitable, Callable, Iterator
from typing import Any, LiteralString

import psycopg
import pytest
from sqlalchemy import Column, Integer, MetaData, String, Table, bindparam, insert, select, text

from postgresql import fresh_database
from sublet.db import Prepared, Tx
from sublet.db.pipeline import WAITING_MAX, NotAnswered, Pipeline, number_parameters
from sublet.db.postgresql import PostgresqlDatabase
from things import ask, prepared_things, tell

numbers = Table("numbers", MetaData(), Column("id", Integer, primary_key=True), Column("name", String))
_NAME = Prepared(select(numbers.c.id, numbers.c.name).where(numbers.c.id == bindparam("of")))
_NAMED = Prepared(select(numbers.c.id).where(numbers.c.name == bindparam("called")))
_ADDED = Prepared(insert(numbers))
NAMES = 200
ALL_OTHERS_END = "SELECT pg_terminate_backend(pid) FROM pg_stat_activity WHERE datname = current_database() AND pid <> pg_backend_pid()"
ECHO = "SELECT %(n)s::int, '%%', %(text)s::text, %(n)s::int + 1"


@pytest.fixture(scope="module")
def prepared(postgresql_server: str) -> Iterator[str]:
    with prepared_things(postgresql_server) as url:
        _change(url, "CREATE TABLE numbers (id int PRIMARY KEY, name text)")
        _change(url, "INSERT INTO numbers SELECT g, 'name ' || g FROM generate_series(1, 200) AS g")
        yield url


@pytest.fixture
def url(postgresql_server: str, prepared: str) -> Iterator[str]:
    with fresh_database(postgresql_server, like=prepared) as made:
        yield made


def _change(url: str, statement: LiteralString) -> None:
    with psycopg.connect(url, autocommit=True) as connection:
        connection.execute(statement)


def _name_of(tx: Tx, number: int) -> str | None:
    row = _NAME.one_or_none(tx, of=number)
    return None if row is None else str(row[1])


def _named(tx: Tx, called: str) -> list[int]:
    return [row[0] for row in _NAMED.all(tx, called=called)]


async def _until_by_pipeline(database: PostgresqlDatabase) -> Pipeline:
    """Ask until the pipeline is there; the first question has it made."""
    async with asyncio.timeout(60):
        while (pipeline := database._asker._pipeline) is None or pipeline.is_closed:
            await database.ask(_name_of, 1)
            await asyncio.sleep(0.01)
    return pipeline


def _over_pipeline(url: str, story: Callable[[Pipeline], Awaitable[None]]) -> None:
    async def run() -> None:
        pipeline = Pipeline(psycopg.connect(url, autocommit=True), asyncio.get_running_loop())
        try:
            async with asyncio.timeout(60):
                await story(pipeline)
        finally:
            pipeline.close()

    asyncio.run(run())


def _echo(pipeline: Pipeline, number: int, said: str = "") -> Awaitable[list[tuple[Any, ...]]]:
    return pipeline.answer(ECHO, {"n": number, "text": said})


def test_each_gets_the_answer_to_its_own_question(url: str) -> None:
    async def story(database: PostgresqlDatabase) -> None:
        pipeline = await _until_by_pipeline(database)
        asked = [1 + number % (NAMES + 1) for number in range(600)]
        found = await asyncio.gather(*(database.ask(_name_of, number) for number in asked))
        assert found == [f"name {number}" if number <= NAMES else None for number in asked]
        assert database._asker._pipeline is pipeline

    tell(url, story)


def test_no_thread_is_used_once_there_is_a_pipeline(url: str, monkeypatch: pytest.MonkeyPatch) -> None:
    async def story(database: PostgresqlDatabase) -> None:
        await _until_by_pipeline(database)
        submitted: list[object] = []
        monkeypatch.setattr(database._readers, "submit", submitted.append)
        assert await database.ask(_name_of, 7) == "name 7"
        assert await database.recall(_name_of, 8) == "name 8"
        assert submitted == []

    tell(url, story)


def test_what_was_written_a_moment_ago_is_there(url: str) -> None:
    def add(tx: Tx, number: int) -> None:
        _ADDED.run(tx, id=number, name=f"new {number}")

    async def story(database: PostgresqlDatabase) -> None:
        await _until_by_pipeline(database)
        for number in range(1000, 1030):
            await database.write(add, number)
            assert await database.ask(_name_of, number) == f"new {number}"

    tell(url, story)


def test_a_connection_that_ends_costs_nobody_an_answer(url: str) -> None:
    async def story(database: PostgresqlDatabase) -> None:
        pipeline = await _until_by_pipeline(database)
        questions = [asyncio.create_task(database.ask(_name_of, 1 + n % NAMES)) for n in range(300)]
        await asyncio.to_thread(ask, url, ALL_OTHERS_END)
        assert await asyncio.gather(*questions) == [f"name {1 + n % NAMES}" for n in range(300)]
        assert await database.ask(_name_of, 3) == "name 3"
        assert pipeline.is_closed
        assert await _until_by_pipeline(database) is not pipeline  # another was made
        assert await database.ask(_name_of, 4) == "name 4"

    tell(url, story)


def test_a_changed_column_is_read_as_it_is_now(url: str) -> None:
    """What is prepared gives other columns then, which PostgreSQL refuses."""

    async def story(database: PostgresqlDatabase) -> None:
        await _until_by_pipeline(database)
        assert await database.ask(_name_of, 5) == "name 5"
        await asyncio.to_thread(_change, url, "ALTER TABLE numbers ALTER COLUMN id TYPE bigint")
        assert await database.ask(_name_of, 5) == "name 5"
        await _until_by_pipeline(database)
        assert await database.ask(_name_of, 6) == "name 6"

    tell(url, story)


def test_a_parameter_that_cannot_be_sent_harms_nobody_else(url: str) -> None:
    async def story(database: PostgresqlDatabase) -> None:
        pipeline = await _until_by_pipeline(database)
        hostile = asyncio.create_task(database.ask(_named, "a\0b"))
        assert await database.ask(_named, "name 9") == [9]
        with pytest.raises(Exception, match="NUL"):
            await hostile
        assert not pipeline.is_closed

    tell(url, story)


def test_what_asks_twice_is_told(url: str) -> None:
    def two(tx: Tx) -> tuple[str | None, str | None]:
        return _name_of(tx, 1), _name_of(tx, 2)

    async def story(database: PostgresqlDatabase) -> None:
        await _until_by_pipeline(database)
        with pytest.raises(RuntimeError, match="one statement"):
            await database.ask(two)

    tell(url, story)


def test_what_is_no_prepared_statement_is_told(url: str) -> None:
    async def story(database: PostgresqlDatabase) -> None:
        await _until_by_pipeline(database)
        with pytest.raises(AttributeError):
            await database.ask(lambda tx: tx.connection.scalar(text("SELECT 1")))

    tell(url, story)


def test_a_database_that_is_closed_meanwhile_answers_or_says_so(url: str) -> None:
    async def story(database: PostgresqlDatabase) -> None:
        pipeline = await _until_by_pipeline(database)
        questions = [asyncio.create_task(database.ask(_name_of, 1)) for _ in range(50)]
        await asyncio.sleep(0)
        await database.close()
        assert pipeline.is_closed
        answers = await asyncio.gather(*questions, return_exceptions=True)
        assert all(each == "name 1" or "Unavailable" in type(each).__name__ for each in answers)

    tell(url, story)


def test_the_next_event_loop_gets_a_pipeline_of_its_own(url: str) -> None:
    database = PostgresqlDatabase(url, may_lose_writes=True)

    async def use() -> Pipeline:
        assert await database.ask(_name_of, 2) == "name 2"
        return await _until_by_pipeline(database)

    first = asyncio.run(use())
    second = asyncio.run(use())
    assert first.is_closed
    assert first is not second
    asyncio.run(database.close())
    assert second.is_closed


def test_questions_larger_than_what_the_system_holds(url: str) -> None:
    async def story(pipeline: Pipeline) -> None:
        said = "x" * 100_000
        rows = await asyncio.gather(*(_echo(pipeline, number, said) for number in range(200)))
        assert [row for each in rows for row in each] == [(n, "%", said, n + 1) for n in range(200)]

    _over_pipeline(url, story)


def test_one_that_fails_ends_those_beside_it_and_the_connection(url: str) -> None:
    async def story(pipeline: Pipeline) -> None:
        assert await _echo(pipeline, 1) == [(1, "%", "", 2)]
        wrong = pipeline.answer("SELECT 1 / %(n)s::int", {"n": 0})
        answers = await asyncio.gather(_echo(pipeline, 2), wrong, _echo(pipeline, 3), return_exceptions=True)
        assert [type(each) for each in answers] == [list, NotAnswered, NotAnswered]
        assert pipeline.is_closed
        with pytest.raises(NotAnswered):
            await _echo(pipeline, 4)

    _over_pipeline(url, story)


def test_who_asks_and_goes_harms_nobody_else(url: str) -> None:
    async def story(pipeline: Pipeline) -> None:
        questions = [asyncio.ensure_future(_echo(pipeline, number)) for number in range(20)]
        await asyncio.sleep(0)
        for gone in questions[::2]:
            gone.cancel()
        answers = await asyncio.gather(*questions, return_exceptions=True)
        assert answers[1::2] == [[(n, "%", "", n + 1)] for n in range(1, 20, 2)]
        assert await _echo(pipeline, 30) == [(30, "%", "", 31)]

    _over_pipeline(url, story)


def test_more_than_may_wait_are_asked_elsewhere(url: str) -> None:
    async def story(pipeline: Pipeline) -> None:
        answers = await asyncio.gather(
            *(_echo(pipeline, number) for number in range(WAITING_MAX + 100)), return_exceptions=True
        )
        assert NotAnswered in {type(each) for each in answers}
        assert len([each for each in answers if isinstance(each, list)]) >= WAITING_MAX - 2
        assert await _echo(pipeline, 5) == [(5, "%", "", 6)]

    _over_pipeline(url, story)


@pytest.mark.parametrize(
    ("sql", "numbered"),
    [
        ("SELECT 1", ("SELECT 1", ())),
        ("a = %(a)s AND b = %(b)s::int OR c = %(a)s", ("a = $1 AND b = $2::int OR c = $1", ("a", "b"))),
        ("x LIKE 'a%%' AND y %% %(z)s", ("x LIKE 'a%' AND y % $1", ("z",))),
    ],
)
def test_parameters_get_numbers(sql: str, numbered: tuple[str, tuple[str, ...]]) -> None:
    assert number_parameters(sql) == numbered
