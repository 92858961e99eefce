"""Statements that are built once, when their store is imported, and run many times."""

from collections.abc import Mapping, Sequence
from typing import Any

from sqlalchemy import Executable, Result

from sublet.db.model import Tx


class Prepared:
    """A statement with its `bindparam`s. An INSERT or UPDATE without values sets the columns that the parameters name."""

    def __init__(self, statement: Executable) -> None:
        self._statement = statement

    def all(self, tx: Tx, **parameters: object) -> Sequence[Any]:
        """Return the rows of the statement, as tuples in the order of its columns."""
        return self._execute(tx, parameters).all()

    def one_or_none(self, tx: Tx, **parameters: object) -> Any:
        """Return the only row, or None; raise SQLAlchemy's `MultipleResultsFound` if there are more."""
        return self._execute(tx, parameters).one_or_none()

    def value(self, tx: Tx, **parameters: object) -> Any:
        """Return the first column of the only row."""
        return self._execute(tx, parameters).scalar_one()

    def run(self, tx: Tx, **parameters: object) -> int:
        """Execute the statement; return the number of rows that it changed."""
        return self._execute(tx, parameters).rowcount  # type: ignore[attr-defined,no-any-return]

    def lock(self, tx: Tx, **parameters: object) -> None:
        """Lock the selected rows until the transaction ends; on SQLite do nothing, since it has one writer."""
        if tx.connection.dialect.name != "sqlite":
            self.all(tx, **parameters)

    def run_many(self, tx: Tx, rows: Sequence[Mapping[str, object]]) -> None:
        """Execute the statement for each of these sets of parameters, which all have the same names."""
        if rows:
            tx.connection.execute(self._statement, rows)

    def _execute(self, tx: Tx, parameters: Mapping[str, object]) -> Result[Any]:
        return tx.connection.execute(self._statement, parameters)
