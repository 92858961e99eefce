"""The statements that are sent to a database, to count them."""

import threading
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from typing import Any

from sqlalchemy import event
from sqlalchemy.engine import Engine

from sublet.db.statements import DriverStatement


@contextmanager
def recorded_statements(*, of_this_thread: bool = False) -> Iterator[list[str]]:
    """Record the statements of all threads, or only of the thread that runs the block, until the block ends.

    BEGIN and commit marks are left out.
    """
    texts: list[str] = []
    thread = threading.get_ident()
    call = DriverStatement.call

    def add(text: str) -> None:
        if not of_this_thread or threading.get_ident() == thread:
            texts.append(text)

    def record(asked: DriverStatement, parameters: Mapping[str, object]) -> Any:
        add(asked.compiled.string)
        return call(asked, parameters)

    def record_composed(_connection: object, _cursor: object, text: str, *_: object) -> None:
        if not text.startswith("BEGIN") and "commit_marks" not in text:
            add(text)

    DriverStatement.call = record  # type: ignore[method-assign, assignment]
    event.listen(Engine, "before_cursor_execute", record_composed)
    try:
        yield texts
    finally:
        DriverStatement.call = call  # type: ignore[method-assign]
        event.remove(Engine, "before_cursor_execute", record_composed)
