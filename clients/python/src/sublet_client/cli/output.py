"""The output of commands: tables for people, JSON, a template, or the keys alone."""

import os
import sys
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Any, cast

import click
import msgspec

from sublet_client._secret import Secret

ALL = "all"
BAD = frozenset({"failed", "broken", "error", "suspended"})
MODE = "{mode}: {price_credits} credits for {period_days} days, renewal {renewal_price_credits}"
AUTO_RENEW = "on, for at most {max_credits} credits"
HEADINGS = {"registration_type": "mode"}
"""Members that are called otherwise in the API and for people."""
GOOD = frozenset({"active", "healthy", "ok"})
Row = dict[str, Any]


@dataclass(frozen=True, slots=True)
class Format:
    """How a command prints: members as JSON, a template for each row, or only the key of each row.

    At most one is set.
    """

    json_fields: str | None = None
    template: str | None = None
    quiet: bool = False


@dataclass(frozen=True, slots=True)
class Told:
    """A result with a text of its own for people; `rows` are for programs."""

    text: str
    rows: Sequence[Any]


def show(value: Any, columns: Sequence[str], wanted: Format) -> None:
    """Print the result of a command: a text, one object, or several.

    `columns` are for people; the first one is the key.
    """
    if isinstance(value, Told):
        value = value.text if wanted == Format() else value.rows
    if value is None or isinstance(value, str):
        if value and not wanted.quiet:
            click.echo(value)
        return
    _show_rows(value, columns, wanted)


def _show_rows(value: Any, columns: Sequence[str], wanted: Format) -> None:
    is_one = isinstance(value, (msgspec.Struct, Mapping))
    values: Iterable[Any] = [value] if is_one else value
    rows = list(map(_row, values))
    try:
        _print(rows, columns, wanted, is_one=is_one)
    except click.UsageError:
        if is_one:  # of a change, perhaps with a secret that isn't shown again
            _print(rows, columns, Format(ALL), is_one=True)
        raise


def _print(rows: Sequence[Row], columns: Sequence[str], wanted: Format, *, is_one: bool) -> None:
    if wanted.json_fields is not None:
        chosen = [_chosen(row, wanted.json_fields) for row in rows]
        text = msgspec.json.encode(chosen[0] if is_one else chosen)
        click.echo(msgspec.json.format(text, indent=2))
    elif wanted.template is not None:
        for row in rows:
            click.echo(_filled(wanted.template, row))
    elif wanted.quiet:
        for row in rows:
            click.echo(_text(row[columns[0]]))
    elif is_one:
        _show_members(rows[0], columns)
    else:
        _show_table(rows, columns)


def is_colored() -> bool:
    """True if output may have colours: on a terminal, without NO_COLOR (no-color.org)."""
    return sys.stdout.isatty() and not os.environ.get("NO_COLOR")


def _row(value: Any) -> Row:
    row = dict(msgspec.to_builtins(value, builtin_types=(datetime,), enc_hook=_encode))
    return row | {new: row[old] for old, new in HEADINGS.items() if old in row}


def _encode(value: Any) -> Any:
    if isinstance(value, Secret):
        return value.reveal()  # the user asked for it, and it is shown once
    raise NotImplementedError(f"{value!r} has no form in JSON")


def _chosen(row: Row, fields: str) -> Row:
    if fields == ALL:
        return row
    names = [each.strip() for each in fields.split(",")]
    try:
        return {each: row[each] for each in names}
    except KeyError as error:
        raise _unknown_member(error.args[0], row) from None


def _filled(template: str, row: Row) -> str:
    texts = {name: value if isinstance(value, int) else _text(value) for name, value in row.items()}
    try:
        return template.replace("\\n", "\n").replace("\\t", "\t").format_map(texts)
    except KeyError as error:
        raise _unknown_member(error.args[0], row) from None
    except (ValueError, AttributeError, TypeError, IndexError) as error:
        raise click.UsageError(f"The template is wrong: {error}. Write '{{fqdn}} {{status}}'.") from None


def _unknown_member(name: str, row: Row) -> click.UsageError:
    return click.UsageError(f"There is no member {name}. Choose from {', '.join(row)}, or {ALL}.")


def _text(value: Any) -> str:
    if value is None:
        return "-"
    if isinstance(value, bool):
        return "yes" if value else "no"
    if isinstance(value, datetime):
        return f"{value.astimezone(UTC):%Y-%m-%d %H:%M}"
    if isinstance(value, dict):
        members = cast("dict[str, Any]", value)
        if "price_credits" in members:
            return MODE.format_map(members)
        if "renewal_price_credits" in members:
            return AUTO_RENEW.format_map(members) if members["enabled"] else "off"
        return " ".join(_text(each) for each in members.values() if each is not None)
    if isinstance(value, (list, tuple)):
        items = cast("Sequence[Any]", value)
        separator = "; " if any(isinstance(each, dict) for each in items) else ", "
        return separator.join(map(_text, items)) or "-"
    return _printable(str(value))


def _printable(text: str) -> str:
    """Return a text without control characters, which a terminal would obey: some
    texts are of other people. The joiners of Persian and Sinhala stay.
    """
    return "".join(
        each if each.isprintable() or each in "\n\u200c\u200d" else "\N{REPLACEMENT CHARACTER}"
        for each in text
    )


def _colored(text: str) -> str:
    color = "red" if text in BAD else "green" if text in GOOD else None
    return click.style(text, fg=color) if color and is_colored() else text


def _heading(column: str) -> str:
    column = HEADINGS.get(column, column)
    for unit in ("credits", "days"):
        if column.endswith(f"_{unit}"):
            return f"{column.removesuffix(f'_{unit}')} ({unit})".replace("_", " ")
    return column.removesuffix("_at").replace("_", " ")


def _show_members(row: Row, columns: Sequence[str]) -> None:
    width = max(len(_heading(each)) for each in columns)
    for each in columns:
        click.echo(f"{_heading(each):{width}}  {_colored(_text(row[each]))}")


def _show_table(rows: Sequence[Row], columns: Sequence[str]) -> None:
    if not rows:
        click.echo("None.", err=True)
        return
    cells = [[_text(row[each]) for each in columns] for row in rows]
    widths = [max(map(len, column)) for column in zip(*cells, map(_heading, columns), strict=True)]
    lines = [[_heading(each).upper() for each in columns], *cells]
    for line in lines:
        padded = [cell.ljust(width) for cell, width in zip(line, widths, strict=True)]
        shown = [_colored(cell.rstrip()) + cell[len(cell.rstrip()) :] for cell in padded]
        click.echo("  ".join(shown).rstrip())
