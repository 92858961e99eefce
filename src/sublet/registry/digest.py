"""The canonical form of a table's rows, and its digest: the same on both databases for the same rows."""

import hashlib
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any

import msgspec

_ENCODER = msgspec.json.Encoder(order="deterministic")


@dataclass(frozen=True, slots=True)
class TableDigest:
    """How many rows a table has, and the SHA-256 in hexadecimal of all of them."""

    table: str
    rows: int
    digest: str


class Digesting:
    """Takes a table's rows as they pass by, in the order of the primary key by its bytes, and gives their digest in the end.

    A row is one line of JSON: an array of the columns' values in the order of the schema. Instants are RFC 3339 in UTC with the
    microseconds that they have, and the members of objects are sorted: how a database stores either is no part of it.
    """

    def __init__(self, table: str, columns: Sequence[str]) -> None:
        self._table = str(table)  # SQLAlchemy's names are a kind of text of their own
        self._rows = 0
        self._hash = hashlib.sha256(_ENCODER.encode([str(each) for each in (table, *columns)]) + b"\n")

    def pass_through(self, rows: Iterable[tuple[Any, ...]]) -> Iterator[tuple[Any, ...]]:
        """Give each row on."""
        for row in rows:
            self._hash.update(_ENCODER.encode(row) + b"\n")
            self._rows += 1
            yield row

    def result(self) -> TableDigest:
        """Return the digest of what has passed so far."""
        return TableDigest(self._table, self._rows, self._hash.hexdigest())


def differing(
    ours: Iterable[TableDigest], theirs: Iterable[TableDigest]
) -> list[tuple[TableDigest, TableDigest]]:
    """Return the tables that are not the same on both sides, each with both digests."""
    return [(one, other) for one, other in zip(ours, theirs, strict=True) if one != other]
