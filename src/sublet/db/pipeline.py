"""PostgreSQL asked by the event loop itself, over one connection, without waiting for one answer before the next question (libpq's pipeline).

A thread for each question takes five times the processor time of the question, most of it to hand the interpreter to and fro
(docs/decisions/0016-questions-by-the-event-loop.md). What goes wrong here is nobody's answer: the question is asked once more where
all else is, which knows what is to be done.
"""

import asyncio
import re
import time
from collections import deque
from collections.abc import Callable
from typing import Any, TypeVar, cast

import psycopg
from psycopg.adapt import PyFormat, Transformer
from psycopg.pq import ExecStatus
from sqlalchemy import Connection, Dialect

R = TypeVar("R")
Row = tuple[Any, ...]

WAITING_MAX = 1000
"""Most questions that wait for their answers on the one connection."""
RECONNECT_SECONDS = 1.0
"""How long after the last one another connection is made at the earliest."""
_PARAMETER = re.compile(r"%(?:\((\w+)\)s|%)")


class NotAnswered(Exception):  # noqa: N818 - nothing is wrong with the question
    """There was no answer; asking again elsewhere does no harm."""


class Pipeline:
    """One connection, from now on in pipeline mode; of an event loop, which alone may call it.

    Questions that the loop asks in one go are sent together, as one transaction. When one fails all end, and so does the connection.
    """

    def __init__(self, connection: "psycopg.Connection[Any]", loop: asyncio.AbstractEventLoop) -> None:
        self.loop = loop
        self._connection = connection
        self._libpq = connection.pgconn
        self._libpq.nonblocking = 1
        self._libpq.enter_pipeline_mode()
        self._socket = self._libpq.socket
        self._due: deque[asyncio.Future[list[Row]] | None] = deque()
        """What answers are due, in order; None: of a command whose answer nobody waits for."""
        self._statements: dict[tuple[str, tuple[int, ...]], bytes] = {}
        """The names of what is prepared, by its text and the types of its parameters."""
        self._numbered: dict[str, tuple[str, tuple[str, ...]]] = {}
        self._is_sync_planned = False
        self.is_closed = False
        loop.add_reader(self._socket, self._receive)

    async def answer(self, sql: str, parameters: dict[str, Any]) -> list[Row]:
        """Return the rows of a question, whose text and parameters are as psycopg takes them.

        Raises:
            NotAnswered: a parameter can't be sent; the connection is lost or busy; or PostgreSQL has refused this question, or one that
                was sent with it.
        """
        if self.is_closed or len(self._due) >= WAITING_MAX:
            raise NotAnswered
        future: asyncio.Future[list[Row]] = self.loop.create_future()
        self._send(sql, parameters)
        self._due.append(future)
        if not self._is_sync_planned:
            self._is_sync_planned = True
            self.loop.call_soon(self._sync)
        return await future

    def close(self) -> None:
        """Close the connection; all questions that wait are left without an answer."""
        if self.is_closed:
            return
        self.is_closed = True
        if not self.loop.is_closed():
            self.loop.remove_reader(self._socket)
            self.loop.remove_writer(self._socket)
        self._connection.close()
        due, self._due = self._due, deque()
        for future in due:
            if future is not None and not future.done():
                future.set_exception(NotAnswered())

    def _send(self, sql: str, parameters: dict[str, Any]) -> None:
        numbered = self._numbered.get(sql)
        if numbered is None:
            numbered = self._numbered[sql] = number_parameters(sql)
        text, names = numbered
        transformer = Transformer(self._connection)
        try:
            given = transformer.dump_sequence(
                [parameters[name] for name in names], [PyFormat.AUTO] * len(names)
            )
        except (psycopg.Error, UnicodeError) as error:  # a zero octet, for one
            raise NotAnswered from error
        types = transformer.types or ()
        statement = self._statements.get((text, types))
        try:
            if statement is None:
                statement = self._statements[text, types] = b"sublet_%d" % len(self._statements)
                self._libpq.send_prepare(statement, text.encode(), types)
                self._due.append(None)
            self._libpq.send_query_prepared(statement, given, transformer.formats)
        except psycopg.Error as error:
            self.close()  # a part of it may be on its way
            raise NotAnswered from error

    def _sync(self) -> None:
        self._is_sync_planned = False
        if self.is_closed:
            return
        try:
            self._libpq.pipeline_sync()
            self._due.append(None)
            self._flush()
        except psycopg.Error:
            self.close()

    def _flush(self) -> None:
        if self._libpq.flush():  # the system takes no more at the moment
            self.loop.add_writer(self._socket, self._flush_rest)

    def _flush_rest(self) -> None:
        self.loop.remove_writer(self._socket)
        try:
            self._flush()
        except psycopg.Error:
            self.close()

    def _receive(self) -> None:
        try:
            self._libpq.consume_input()
            while self._due and not self._libpq.is_busy():
                result = self._libpq.get_result()
                if result is None:  # the end of a question's results
                    continue
                self._take(result)
        except psycopg.Error:
            self.close()

    def _take(self, result: Any) -> None:
        """Give what came to the one who asked.

        Raises:
            psycopg.Error: it is no answer, or can't be read.
        """
        future = self._due[0]
        if result.status not in (_DONE if future is None else _FOUND):
            raise psycopg.OperationalError("a question was refused")
        if future is not None and not future.done():  # who asked may be gone
            transformer = Transformer(self._connection)
            transformer.set_pgresult(result)
            future.set_result(transformer.load_rows(0, result.ntuples, tuple))
        self._due.popleft()


_DONE = (ExecStatus.COMMAND_OK, ExecStatus.PIPELINE_SYNC)
_FOUND = (ExecStatus.TUPLES_OK,)


def number_parameters(sql: str) -> tuple[str, tuple[str, ...]]:
    """Return a text with `%(name)s` and `%%` as libpq takes it, with `$1` and `%`; and the names by number."""
    names: dict[str, int] = {}

    def written(found: re.Match[str]) -> str:
        return f"${names.setdefault(found[1], len(names) + 1)}" if found[1] else "%"

    text = _PARAMETER.sub(written, sql)
    return text, tuple(names)


class _Asked(BaseException):
    """The question has come to its statement."""

    def __init__(self, sql: str, parameters: dict[str, Any]) -> None:
        self.sql, self.parameters = sql, parameters


class _Line:
    """What a question that is asked by the loop has for a connection: it knows the dialect, and one statement with its rows.

    While the rows aren't there, the statement ends the question by `_Asked`. It is the driver's cursor as well.
    """

    def __init__(self, dialect: Dialect, rows: list[Row] | None = None) -> None:
        self.dialect = dialect
        self._rows = rows
        self._is_told = False

    @property
    def connection(self) -> "_Line":
        """As SQLAlchemy's connection has the pool's."""
        return self

    @property
    def dbapi_connection(self) -> "_Line":
        """As the pool's connection has the driver's."""
        return self

    def execute(self, sql: str, parameters: dict[str, Any]) -> "_Line":
        """Take the one statement."""
        if self._rows is None:
            raise _Asked(sql, parameters)
        if self._is_told:
            raise RuntimeError("what is asked by `Database.ask` is one statement; use `read`")
        self._is_told = True
        return self

    def fetchall(self) -> list[Row]:
        """Return the rows of the one statement."""
        return self._rows or []


class Asker:
    """Asks over a pipeline, for as long as there is one; `connect` makes its connection, on whatever thread `start` runs it on."""

    def __init__(
        self,
        connect: Callable[[], "psycopg.Connection[Any]"],
        start: Callable[[Callable[[], Any]], asyncio.Future[Any]],
        dialect: Dialect,
    ) -> None:
        self._connect = connect
        self._start = start
        self._dialect = dialect
        self._pipeline: Pipeline | None = None
        self._connecting: asyncio.Future[Any] | None = None
        self._connect_at = 0.0
        self._losses = 0
        self._is_closed = False

    async def ask(self, question: Callable[[Connection], R], losses: int) -> R:
        """Run a question, which comes to its one `Prepared` statement twice: to be sent, and to take its rows.

        `losses` is how many connections were lost so far: a pipeline that was made before the last one is left.

        Raises:
            NotAnswered: as `Pipeline.answer`; or there is no pipeline, and another is made beside.
        """
        pipeline = self._pipeline
        if pipeline is not None and pipeline.loop is not asyncio.get_running_loop():
            self._leave()
            pipeline = None
        if pipeline is None or pipeline.is_closed or losses != self._losses:
            self._make_anew(losses)
            raise NotAnswered
        try:
            return question(cast("Connection", _Line(self._dialect)))
        except _Asked as asked:
            sql, parameters = asked.sql, asked.parameters
        rows = await pipeline.answer(sql, parameters)
        return question(cast("Connection", _Line(self._dialect, rows)))

    def close(self) -> None:
        """Close the connection, and make no other."""
        self._is_closed = True
        self._leave()

    def _leave(self) -> None:
        if self._pipeline is not None:
            self._pipeline.close()
            self._pipeline = None

    def _make_anew(self, losses: int) -> None:
        self._leave()
        if self._is_closed or self._connecting is not None or time.monotonic() < self._connect_at:
            return
        self._connect_at = time.monotonic() + RECONNECT_SECONDS
        self._losses = losses
        self._connecting = self._start(self._connect)
        self._connecting.add_done_callback(self._connected)

    def _connected(self, made: asyncio.Future[Any]) -> None:
        self._connecting = None
        if made.cancelled() or made.exception() is not None:
            return  # whoever asks meanwhile is told why
        if self._is_closed:
            made.result().close()
            return
        self._pipeline = Pipeline(made.result(), asyncio.get_running_loop())
