"""The page of the part `speed`: one table and two pictures, for docs/performance.md."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path

from registries import POSTGRESQL, SQLITE
from speed import Results
from workloads import WORKLOADS

BEGINS, ENDS = "<!-- figures: written by make bench -->", "<!-- end of the figures -->"
GROWTH_MOST = 1.2
SITUATIONS = {
    "alone": "half load",
    "sweep": "half load, beside a sweep",
    "check": "half load, beside a zone check",
    "lists": "half load of reads, beside slow lists",
}


@dataclass(frozen=True, slots=True)
class Row:
    """A row of the table; `aim` is the bound for each database: at least for ratios, at most for everything
    else.
    """

    title: str
    key: str
    form: str = "{:,.0f}"
    aim: tuple[tuple[str, float], ...] = ()
    at_least: bool = False

    def cell(self, results: Results) -> str:
        """Return the figure of a registry; bold if it misses its aim."""
        value = results.values.get(self.key)
        if value is None:
            return ""
        shown = self.form.format(value)
        aim = dict(self.aim).get(results.database)
        missed = aim is not None and (value < aim if self.at_least else value > aim)
        return f"**{shown}**" if missed else shown

    @property
    def wanted(self) -> str:
        """The aim in words."""
        sign = "≥" if self.at_least else "≤"
        return ", ".join(f"{sign} {self.form.format(value)} ({database})" for database, value in self.aim)


def _both(sqlite: float, postgresql: float) -> tuple[tuple[str, float], ...]:
    return (SQLITE, sqlite), (POSTGRESQL, postgresql)


HELLO_AIMS = {"one_free": _both(0.094, 0.025), "one_paid": _both(0.069, 0.019)}
"""The bounds of the workloads of one user, in bare hellos: all its registrations wait for each other."""
RATIO_AIMS = {
    "get": _both(0.42, 0.20),
    "list": _both(0.060, 0.036),
    "register": _both(0.19, 0.048),
    "paid": ((SQLITE, 0.10),),
}
ROWS = (
    Row("bare hello (Litestar on uvicorn), per second", "hello"),
    Row("GET a name by hand with Starlette, per second", "by_hand"),
    Row("bare commits, per second", "commits"),
    *(
        row
        for each in WORKLOADS
        for row in (
            Row(f"{each.title}, per second", each.name),
            Row(
                f"… ÷ bare {each.reference}",
                f"{each.name}_ratio",
                "{:.3f}",
                RATIO_AIMS.get(each.name, ()),
                at_least=True,
            ),
        )
    ),
    *(
        Row(
            f"{each.title} ÷ bare hello",
            f"{each.name}_hellos",
            "{:.3f}",
            HELLO_AIMS[each.name],
            at_least=True,
        )
        for each in WORKLOADS
        if each.name in HELLO_AIMS
    ),
    Row("GET a name ÷ GET by hand", "get_by_hand_ratio", "{:.2f}"),
    Row("9 reads to 1 registration, the most per second", "most"),
    *(
        row
        for name, title in SITUATIONS.items()
        for row in (
            Row(f"{title}: p99 of reads, ms", f"{name}_read_p99_ms", "{:.1f}", _both(10, 25)),
            Row(f"{title}: p99 of registrations, ms", f"{name}_write_p99_ms", "{:.1f}"),
        )
        if row.key != "lists_write_p99_ms"
    ),
    Row("start until ready, s", "ready_seconds", "{:.2f}", ((SQLITE, 0.6),)),
    Row("memory after the load, MiB", "memory_mib", aim=((SQLITE, 150),)),
)


def growth(small: Results, large: Results, name: str) -> float | None:
    """Return the cost of a workload on the larger registry divided by that on the smaller, both in bare
    hellos.
    """
    key = f"{name}_hellos"
    return small.values[key] / large.values[key] if key in small.values and key in large.values else None


def table(all_results: Sequence[Results]) -> str:
    """Return the table: a column for each registry, and the growth from a database's smallest to its largest
    one.
    """
    columns: list[tuple[str, Callable[[Row], str]]] = []
    for database in (SQLITE, POSTGRESQL):
        ours = sorted(
            (each for each in all_results if each.database == database), key=lambda each: each.names
        )
        columns += [(f"{database}, {each.names:,} names", _cells_of(each)) for each in ours]
        if len(ours) > 1:
            columns.append(("growth", _growth_between(ours[0], ours[-1])))
    lines = [
        ["", *(title for title, _ in columns), "wanted"],
        ["---", *("---:" for _ in columns), "---"],
        *([row.title, *(cell(row) for _, cell in columns), row.wanted] for row in ROWS),
    ]
    return "\n".join(f"| {' | '.join(line)} |" for line in lines)


def _cells_of(results: Results) -> Callable[[Row], str]:
    return lambda row: row.cell(results)


def _growth_between(small: Results, large: Results) -> Callable[[Row], str]:
    def cell(row: Row) -> str:
        found = growth(small, large, row.key)
        if found is None:
            return ""
        return f"**{found:.2f}**" if found > GROWTH_MOST else f"{found:.2f}"

    return cell


def draw(all_results: Sequence[Results], folder: Path) -> list[str]:
    """Draw the two pictures; return their file names."""
    ordered = sorted(all_results, key=lambda each: (each.database == POSTGRESQL, each.names))
    ratios = {each.title: f"{each.name}_ratio" for each in WORKLOADS}
    delays = {title: f"{name}_read_p99_ms" for name, title in SITUATIONS.items()}
    _bars("Rate ÷ bare reference (hello or commits)", ratios, ordered, folder / "ratios.svg")
    _bars("p99 of reads, ms", delays, ordered, folder / "delays.svg")
    return ["ratios.svg", "delays.svg"]


def _bars(title: str, keys: dict[str, str], all_results: Sequence[Results], path: Path) -> None:
    """Draw a horizontal bar for each key and registry."""
    from matplotlib import rc_context  # noqa: PLC0415 - it takes a second in each process of the tests
    from matplotlib.figure import Figure  # noqa: PLC0415

    figure = Figure(figsize=(9, 0.4 + 0.22 * len(keys) * (len(all_results) + 1)), layout="constrained")
    axes = figure.subplots()
    height = 1 / (len(all_results) + 1)
    for number, results in enumerate(all_results):
        places = [place + number * height for place in range(len(keys))]
        values = [results.values[key] for key in keys.values()]
        bars = axes.barh(places, values, height, label=f"{results.database}, {results.names:,} names")
        axes.bar_label(bars, fmt="{:.2f}", fontsize=7, padding=2)
    axes.set_yticks([place + (len(all_results) - 1) * height / 2 for place in range(len(keys))], list(keys))
    axes.invert_yaxis()
    axes.set_title(title)
    axes.margins(x=0.1)
    axes.legend(fontsize=8)
    # Text as text, and the same bytes for the same figures.
    with rc_context({"svg.fonttype": "none", "svg.hashsalt": title}):
        figure.savefig(path, metadata={"Date": None})


def write_page(page: Path, all_results: Sequence[Results], about: str) -> None:
    """Draw the pictures beside a page, and replace the text between its two marks.

    Raises:
        ValueError: the page doesn't have each mark once, in their order.
    """
    text = page.read_text(encoding="utf-8")
    before, begins, rest = text.partition(BEGINS)
    _, ends, after = rest.partition(ENDS)
    if not begins or not ends or BEGINS in rest or ENDS in after:
        raise ValueError(f"{page} needs the lines {BEGINS!r} and {ENDS!r}, once each")
    pictures = page.parent / "performance"
    pictures.mkdir(exist_ok=True)
    shown = "\n".join(f"![{name}](performance/{name})" for name in draw(all_results, pictures))
    figures = f"{about}\n\n{table(all_results)}\n\n{shown}"
    page.write_text(f"{before}{BEGINS}\n\n{figures}\n\n{ENDS}{after}", encoding="utf-8")
