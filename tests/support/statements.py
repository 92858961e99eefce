"""The statements that are sent to a database, to count them."""

from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from typing import Any

from sqlalchemy import event
from sqlalchemy.engine import Engine

from sublet.db.statements import DriverStatement


@contextmanager
def recorded_statements() -> Iterator[list[str]]:
    """Record each statement of all threads until the block ends, besides BEGIN and commit marks."""
    texts: list[str] = []
    call = DriverStatement.call

    def record(asked: DriverStatement, parameters: Mapping[str, object]) -> Any:
        texts.append(asked.compiled.string)
        return call(asked, parameters)

    def record_composed(_connection: object, _cursor: object, text: str, *_: object) -> None:
        if not text.startswith("BEGIN") and "commit_marks" not in text:
            texts.append(text)

    DriverStatement.call = record  # type: ignore[method-assign, assignment]
    event.listen(Engine, "before_cursor_execute", record_composed)
    try:
        yield texts
    finally:
        DriverStatement.call = call  # type: ignore[method-assign]
        event.remove(Engine, "before_cursor_execute", record_composed)
