"""Pictures of figures as plain SVG text: bars and lines, with every value written beside them; nothing is loaded from elsewhere."""

import math
from collections.abc import Mapping, Sequence
from xml.sax.saxutils import escape

COLOURS = (
    "#1b6ca8",
    "#d1731f",
    "#3a8f4b",
    "#8a4fa3",
    "#b8384a",
    "#5c6b73",
    "#a88b1b",
    "#2aa39a",
    "#7a3b12",
    "#444488",
)
"""Apart in lightness too, so that they differ in grey."""
WIDTH = 860
LEFT = 250
RIGHT = 90
BAR = 14
ROW_GAP = 10
HEAD = 64
INK, PALE = "#222222", "#dddddd"


def _text(
    x: float, y: float, text: str, *, anchor: str = "start", size: int = 12, weight: str = "normal"
) -> str:
    return (
        f'<text x="{x:.1f}" y="{y:.1f}" text-anchor="{anchor}" font-size="{size}" font-weight="{weight}" '
        f'fill="{INK}">{escape(text)}</text>'
    )


def _line(
    x1: float, y1: float, x2: float, y2: float, colour: str, *, dashed: bool = False, width: float = 1
) -> str:
    dash = ' stroke-dasharray="5 4"' if dashed else ""
    return f'<line x1="{x1:.1f}" y1="{y1:.1f}" x2="{x2:.1f}" y2="{y2:.1f}" stroke="{colour}" stroke-width="{width}"{dash}/>'


def _picture(title: str, height: float, parts: Sequence[str]) -> str:
    size = f'width="{WIDTH}" height="{height:.0f}"'
    told = escape(title, {'"': "&quot;"})
    box = f'viewBox="0 0 {WIDTH} {height:.0f}" role="img" aria-label="{told}" font-family="sans-serif"'
    lines = [
        f'<svg xmlns="http://www.w3.org/2000/svg" {size} {box}>',
        f"<title>{escape(title)}</title>",
        f'<rect {size} fill="#ffffff"/>',
        _text(16, 24, title, size=16, weight="bold"),
        *parts,
        "</svg>",
    ]
    return "\n".join(lines) + "\n"


def _legend(names: Sequence[str]) -> list[str]:
    parts, x = [], 16.0
    for name, colour in zip(names, _colours(names), strict=True):
        parts += [
            f'<rect x="{x:.1f}" y="36" width="12" height="12" fill="{colour}"/>',
            _text(x + 17, 46, name),
        ]
        x += 36 + 6.6 * len(name)
    return parts


def _colours(names: Sequence[str]) -> list[str]:
    return [COLOURS[place % len(COLOURS)] for place in range(len(names))]


def draw_bars(
    title: str,
    rows: Sequence[str],
    series: Mapping[str, Mapping[str, float]],
    *,
    form: str = "{:.2f}",
    aims: Mapping[str, float] | None = None,
) -> str:
    """Return a picture of bars: for each row one of each series that has a value for it; `aims` are marked by row with a dashed line."""
    aims = aims or {}
    most = max(
        [value for values in series.values() for value in values.values()] + list(aims.values()), default=1
    )
    scale = (WIDTH - LEFT - RIGHT) / (most or 1)
    parts, y = _legend(list(series)), float(HEAD)
    for row in rows:
        top = y
        for (_, values), colour in zip(series.items(), _colours(list(series)), strict=True):
            if row in values:
                length = values[row] * scale
                parts.append(
                    f'<rect x="{LEFT}" y="{y:.1f}" width="{max(length, 1):.1f}" height="{BAR}" fill="{colour}"/>'
                )
                parts.append(_text(LEFT + length + 5, y + BAR - 3, form.format(values[row]), size=11))
                y += BAR + 1
        if y == top:
            continue
        parts.append(_text(LEFT - 8, (top + y) / 2 + 4, row, anchor="end"))
        if row in aims:
            x = LEFT + aims[row] * scale
            parts.append(_line(x, top - 3, x, y + 2, INK, dashed=True))
        y += ROW_GAP
    return _picture(title, y + 10, parts)


def draw_lines(
    title: str,
    places: Sequence[float],
    series: Mapping[str, Sequence[float | None]],
    *,
    across: str,
    form: str = "{:.2f}",
    aim: float | None = None,
) -> str:
    """Return a picture of lines over places that are put by their logarithm; `aim` is a dashed line across.

    A value may be missing (None).
    """
    plot_top, plot_height, left, right = HEAD + 6.0, 300.0, 70.0, 260.0
    values = [value for each in series.values() for value in each if value is not None]
    most = max([*values, aim or 0.0]) * 1.08 or 1.0
    least, last = math.log(places[0]), math.log(places[-1])

    def x_of(place: float) -> float:
        part = (math.log(place) - least) / (last - least) if last > least else 0.0
        return left + part * (WIDTH - left - right)

    def y_of(value: float) -> float:
        return plot_top + plot_height * (1 - value / most)

    parts = []
    for step in range(5):
        value = most * step / 4
        parts += [_line(left, y_of(value), WIDTH - right, y_of(value), PALE)]
        parts += [_text(left - 8, y_of(value) + 4, form.format(value), anchor="end", size=11)]
    parts += [
        _text(x_of(each), plot_top + plot_height + 18, f"{each:,.0f}", anchor="middle") for each in places
    ]
    parts += [_text((left + WIDTH - right) / 2, plot_top + plot_height + 38, across, anchor="middle")]
    if aim is not None:
        parts.append(_line(left, y_of(aim), WIDTH - right, y_of(aim), INK, dashed=True))
    ends = []
    for (name, each), colour in zip(series.items(), _colours(list(series)), strict=True):
        known = [
            (x_of(place), y_of(value)) for place, value in zip(places, each, strict=True) if value is not None
        ]
        path = " ".join(f"{x:.1f},{y:.1f}" for x, y in known)
        parts.append(f'<polyline points="{path}" fill="none" stroke="{colour}" stroke-width="2"/>')
        parts += [f'<circle cx="{x:.1f}" cy="{y:.1f}" r="3" fill="{colour}"/>' for x, y in known]
        if known:
            final = next(value for value in reversed(each) if value is not None)
            ends.append((known[-1][1], colour, f"{name}  {form.format(final)}"))
    parts += _names(sorted(ends), WIDTH - right + 14)
    return _picture(title, plot_top + plot_height + 56, parts)


def _names(ends: Sequence[tuple[float, str, str]], x: float) -> list[str]:
    """Write the name of each line beside its end, none over another."""
    parts, lowest = [], -math.inf
    for y, colour, name in ends:
        lowest = max(y, lowest + 16)
        parts.append(f'<rect x="{x:.1f}" y="{lowest - 5:.1f}" width="9" height="9" fill="{colour}"/>')
        parts.append(_text(x + 14, lowest + 4, name, size=11))
    return parts
