"""The output of commands: one JSON value, or lines and a table for people."""

import dataclasses
import json
import sys
from collections.abc import Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Any

from sublet.errors import FieldError


@dataclass(frozen=True, slots=True)
class Table:
    """Rows for people. `shown_cell` turns the cells into text."""

    columns: tuple[str, ...]
    rows: tuple[tuple[Any, ...], ...]
    empty: str = "None."


@dataclass(frozen=True, slots=True)
class Answer:
    """The result of a command: `value` is printed with --json, otherwise `lines` and then `table`."""

    value: Any
    lines: tuple[str, ...] = ()
    table: Table | None = None
    exit_code: int = 0


def as_instant(at: datetime) -> str:
    """Return an instant as RFC 3339 in UTC with `Z`, to the second."""
    return at.astimezone(UTC).strftime("%Y-%m-%dT%H:%M:%SZ")


def as_json_value(value: Any) -> Any:
    """Return a value for JSON: dataclasses become objects, tuples lists, and instants RFC 3339 texts."""
    if dataclasses.is_dataclass(value) and not isinstance(value, type):
        return {field.name: as_json_value(getattr(value, field.name)) for field in dataclasses.fields(value)}
    if isinstance(value, dict):
        return {str(key): as_json_value(each) for key, each in value.items()}
    if isinstance(value, list | tuple):
        return [as_json_value(each) for each in value]
    return as_instant(value) if isinstance(value, datetime) else value


def shown_cell(value: Any) -> str:
    """Return a value as text for people. Control characters are escaped, because users wrote some of the texts."""
    if value is None:
        return "-"
    if isinstance(value, bool):
        return "yes" if value else "no"
    if isinstance(value, datetime):
        return f"{value.astimezone(UTC):%Y-%m-%d %H:%M} UTC"
    if isinstance(value, list | tuple):
        return ", ".join(shown_cell(each) for each in value) or "-"
    return harmless(str(value))


def harmless(text: str) -> str:
    """Return a text with every character except line breaks and printable ones replaced by its number."""
    return "".join(char if char.isprintable() or char == "\n" else f"<U+{ord(char):04X}>" for char in text)


def facts(**values: Any) -> tuple[str, ...]:
    """Return lines of names and values, with the values aligned; underscores in names become spaces."""
    width = max(len(name) for name in values) + 1
    return tuple(
        f"{name.replace('_', ' ') + ':':<{width + 1}} {shown_cell(value)}" for name, value in values.items()
    )


def print_answer(answer: Answer, *, as_json: bool) -> None:
    """Print an answer to stdout."""
    if as_json:
        print(json.dumps(as_json_value(answer.value), ensure_ascii=False))
        return
    for line in answer.lines:
        print(harmless(line))
    if answer.table is not None:
        _print_table(answer.table)


def _print_table(table: Table) -> None:
    if not table.rows:
        print(table.empty)
        return
    from rich import box  # noqa: PLC0415 - takes longer than most commands, and JSON needs none of it
    from rich.console import Console  # noqa: PLC0415
    from rich.table import Table as RichTable  # noqa: PLC0415
    from rich.text import Text  # noqa: PLC0415

    drawn = RichTable(*table.columns, box=box.SIMPLE_HEAD, pad_edge=False)
    for row in table.rows:
        drawn.add_row(*(Text(shown_cell(cell)) for cell in row))
    # Lines in a pipe must not be cut or wrapped: `grep` reads them.
    Console(width=None if sys.stdout.isatty() else 1000).print(drawn)


def print_refusal(code: str, message: str, errors: Sequence[FieldError] = (), *, as_json: bool) -> None:
    """Print why a command was refused, with all fields, to stderr; with --json also to stdout."""
    sentence = message if len(errors) <= 1 else "; ".join(f"{each.field}: {each.message}" for each in errors)
    print(f"sublet: {harmless(sentence)}", file=sys.stderr)
    if as_json:
        refused = {"ok": False, "error": code, "message": message, "errors": as_json_value(list(errors))}
        print(json.dumps(refused, ensure_ascii=False))


def print_warning(message: str) -> None:
    """Print a warning to stderr, also with --json: stdout has only the answer."""
    print(f"sublet: warning: {harmless(message)}", file=sys.stderr)
