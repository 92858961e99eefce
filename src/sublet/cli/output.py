"""The output of commands: one JSON value, or lines and a table for people."""

import json
import os
import re
import sys
from collections.abc import Callable, Iterable, Sequence
from contextlib import suppress
from datetime import UTC, datetime
from typing import Any, NoReturn

from msgspec import Struct

from sublet.dns.names import is_printable
from sublet.errors import UNAVAILABLE, FieldError

Column = str | tuple[str, str | Callable[[Any], object]]
"""A member's name, from which the heading is made; or a pair: the heading, and the member's name or a
function of the row's value.
"""
_CONTROLS = re.compile(r"[\x7f-\x9f]")
"""The control characters that JSON allows in texts."""


FITTED_ROWS_MAX = 200
"""Longer tables are not fitted to the terminal, because that takes a millisecond a row."""


class Table(Struct, frozen=True):
    """A table to print. `format_cell` converts its cells to text."""

    columns: tuple[str, ...]
    rows: tuple[tuple[Any, ...], ...]
    empty: str = "None."


class Answer(Struct, frozen=True):
    """The result of a command. With --json `value` is printed, otherwise `lines` and then `table`.

    `value` may be a function that returns a large value.
    """

    value: Any
    lines: Iterable[str] = ()
    table: Table | None = None
    exit_code: int = 0


def table_of(values: Iterable[Any], columns: Iterable[Column], empty: str = "None.") -> Table:
    """Return a table with a row for each value, which is an object or a dict.

    `empty` is printed if there are no values.
    """
    pairs = [(_heading(each), each) if isinstance(each, str) else each for each in columns]
    rows = tuple(tuple(_cell(value, source) for _, source in pairs) for value in values)
    return Table(tuple(heading for heading, _ in pairs), rows, empty)


def _heading(member: str) -> str:
    return member.removesuffix("_at").removesuffix("_credits").replace("_", " ")


def _cell(value: Any, source: str | Callable[[Any], object]) -> object:
    if not isinstance(source, str):
        return source(value)
    return value[source] if isinstance(value, dict) else getattr(value, source)


def select_members(value: Any, names: Iterable[str]) -> dict[str, Any]:
    """Return these members of an object, for --json."""
    return {name: getattr(value, name) for name in names}


def as_instant(at: datetime) -> str:
    """Return an instant as RFC 3339 in UTC with `Z`, to the second."""
    # `%Y` does not pad years before 1000.
    return at.astimezone(UTC).isoformat(timespec="seconds").removesuffix("+00:00") + "Z"


def as_json(value: Any) -> str:
    """Return a value as JSON: structs as objects, tuples as lists, and instants as RFC 3339 texts.

    All control characters are escaped, also those that JSON allows, because terminals obey them.
    """
    text = json.dumps(value, ensure_ascii=False, default=_encode)
    return _CONTROLS.sub(lambda found: f"\\u{ord(found[0]):04x}", text)


def _encode(value: Any) -> Any:
    return as_instant(value) if isinstance(value, datetime) else as_object(value)


def as_object(value: Any) -> dict[str, Any]:
    """Return the fields of a struct, for --json."""
    return select_members(value, value.__struct_fields__)


def format_cell(value: Any) -> str:
    """Return a value as text for a table.

    Control characters are escaped, because some texts come from users.
    """
    if value is None:
        return "-"
    if isinstance(value, bool):
        return "yes" if value else "no"
    if isinstance(value, datetime):
        return value.astimezone(UTC).isoformat(" ", "minutes").removesuffix("+00:00") + " UTC"
    if isinstance(value, list | tuple):
        return ", ".join(format_cell(each) for each in value) or "-"
    return escape_controls(str(value))


def escape_controls(text: str) -> str:
    """Return a text with each unprintable character, except line breaks, replaced by its code point."""
    return "".join(char if is_printable(char) or char == "\n" else f"<U+{ord(char):04X}>" for char in text)


def key_value_lines(**values: Any) -> tuple[str, ...]:
    """Return a line for each name and value, with the values aligned. Underscores in names become spaces."""
    width = max(len(name) for name in values) + 1
    return tuple(
        f"{name.replace('_', ' ') + ':':<{width + 1}} {format_cell(value)}" for name, value in values.items()
    )


def print_answer(answer: Answer, *, json_only: bool) -> None:
    """Print an answer to stdout.

    Raises:
        OSError: stdout can't be written.
    """
    if json_only:
        print(as_json(answer.value() if callable(answer.value) else answer.value))
    else:
        for line in answer.lines:
            print(escape_controls(line))
        if answer.table is not None:
            _print_table(answer.table)
    sys.stdout.flush()


def _print_table(table: Table) -> None:
    if not table.rows:
        print(table.empty)
        return
    rows = [table.columns, *(tuple(map(format_cell, row)) for row in table.rows)]
    if sys.stdout.isatty() and len(rows) <= FITTED_ROWS_MAX:
        _print_fitted(rows)
        return
    # One line a row, so that `grep` finds whole rows.
    cells = [[cell.replace("\n", " ") for cell in row] for row in rows]
    widths = [max(map(_width, column)) for column in zip(*cells, strict=True)]
    cells.insert(1, ["─" * width for width in widths])
    for row in cells:
        padded = (cell + " " * (width - _width(cell)) for cell, width in zip(row, widths, strict=True))
        print("   ".join(padded).rstrip())


def _width(cell: str) -> int:
    """Return how many columns of a terminal a text takes."""
    if cell.isascii():
        return len(cell)
    from rich.text import Text  # noqa: PLC0415 - as in `_print_fitted`

    return Text(cell).cell_len


def _print_fitted(rows: Sequence[Sequence[str]]) -> None:
    """Print a heading and rows, and wrap their cells so that they fit the terminal."""
    from rich import box  # noqa: PLC0415 - the import takes longer than most commands run, and JSON doesn't need it
    from rich.console import Console  # noqa: PLC0415
    from rich.table import Table as RichTable  # noqa: PLC0415
    from rich.text import Text  # noqa: PLC0415

    drawn = RichTable(*rows[0], box=box.SIMPLE_HEAD, pad_edge=False)
    for row in rows[1:]:
        drawn.add_row(*map(Text, row))
    Console().print(drawn)


def print_refusal(code: str, message: str, errors: Sequence[FieldError] = (), *, json_too: bool) -> None:
    """Print the refusal of a command with all wrong fields to stderr, and with --json also to stdout."""
    sentence = message if len(errors) <= 1 else "; ".join(f"{each.field}: {each.message}" for each in errors)
    print(f"sublet: {escape_controls(sentence)}", file=sys.stderr)
    if json_too:
        print(as_json({"ok": False, "error": code, "message": message, "errors": errors}))


def end_unwritten(message: str) -> NoReturn:
    """Exit because the output can't be written. The message goes to stderr, if that can be written."""
    with suppress(OSError):
        print(f"sublet: {message}", file=sys.stderr, flush=True)
    # Python would report the rest of the output again when it ends.
    nowhere = os.open(os.devnull, os.O_WRONLY)
    for stream in (sys.stdout, sys.stderr):
        os.dup2(nowhere, stream.fileno())
    sys.exit(UNAVAILABLE)


def print_warning(message: str) -> None:
    """Print a warning to stderr, with --json too, because stdout has only the answer."""
    print(f"sublet: warning: {escape_controls(message)}", file=sys.stderr)
