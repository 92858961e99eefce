"""The figures of a run, and what they say: medians, spreads, ratios, and whether the aims are met. No measuring here."""

from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from itertools import pairwise
from statistics import median
from typing import Any


@dataclass(frozen=True, slots=True)
class Figure:
    """Something measured in several rounds: answers a second of it and, in the same rounds, of its reference."""

    name: str
    title: str
    rounds: tuple[float, ...]
    reference: str = ""
    reference_rounds: tuple[float, ...] = ()
    p50_ms: float = 0.0
    p99_ms: float = 0.0
    statements: int | None = None

    @property
    def per_second(self) -> float:
        """The median of the rounds."""
        return median(self.rounds)

    @property
    def spread(self) -> float:
        """How far the rounds lie apart, as a part of the median."""
        return spread(self.rounds)

    @property
    def ratio(self) -> float | None:
        """What it reached of its reference: the median of the rounds' ratios, since a slow moment meets both."""
        return times(self.rounds, self.reference_rounds) if self.reference_rounds else None


def times(rounds: Sequence[float], others: Sequence[float]) -> float:
    """Return how many times as much something was as something else in the same rounds: the median of the rounds' ratios."""
    return median(own / other for own, other in zip(rounds, others, strict=True))


def spread(values: Sequence[float]) -> float:
    """Return the distance of the greatest to the least value, as a part of the median."""
    middle = median(values)
    return (max(values) - min(values)) / middle if middle else 0.0


@dataclass(slots=True)
class Results:
    """All figures of one registry: `values` are those that are no rate, by name, such as `ready_seconds`."""

    database: str
    names: int
    figures: list[Figure] = field(default_factory=list)
    values: dict[str, float] = field(default_factory=dict)
    notes: list[str] = field(default_factory=list)

    def find(self, name: str) -> Figure | None:
        """Return the figure of a name, or None where it was not measured."""
        return next((each for each in self.figures if each.name == name), None)


@dataclass(frozen=True, slots=True)
class Aim:
    """Something that was to be shown: what, on which registry, what was found, and what would do. `met` is None where it wasn't measured."""

    what: str
    where: str
    found: str
    aim: str
    met: bool | None


def growth(small: Results, large: Results) -> dict[str, float]:
    """Return how many times as much each operation costs on the larger registry, by name.

    Each is first compared with its own reference, hello, in the same rounds: so the machine's moods are not the registry's.
    """
    found = {}
    for each in small.figures:
        other = large.find(each.name)
        if other is not None and other.per_second and each.name not in NOT_GROWING:
            found[each.name] = _to_hello(small, each) / _to_hello(large, other)
    return found


NOT_GROWING = ("hello", "hello_starlette", "bare register", "bare_one")


def _to_hello(results: Results, figure: Figure) -> float:
    hello = results.find("hello")
    if figure.reference == "hello":  # which may be another one than the table's, nearer in time
        return times(figure.rounds, figure.reference_rounds)
    return times(figure.rounds, hello.rounds) if hello is not None else figure.per_second


def aims(all_results: Sequence[Results]) -> list[Aim]:
    """Return what was to be shown, with what was found."""
    found: list[Aim] = []
    for results in all_results:
        found += _ratios(results) + _clients(results) + _delays(results) + _processes(results)
        found += statements_of_lists(results)
    for database in dict.fromkeys(each.database for each in all_results):
        of_one = sorted(
            (each for each in all_results if each.database == database), key=lambda each: each.names
        )
        if len(of_one) > 1:
            found += _growths(of_one[0], of_one[-1])
    return found


def _where(results: Results) -> str:
    return f"{results.database}, {results.names:,}"


def _at_least(what: str, results: Results, value: float | None, least: float, form: str = "{:.2f}") -> Aim:
    shown = "not measured" if value is None else form.format(value)
    return Aim(
        what, _where(results), shown, "≥ " + form.format(least), None if value is None else value >= least
    )


def _at_most(what: str, results: Results, value: float | None, most: float, form: str) -> Aim:
    shown = "not measured" if value is None else form.format(value)
    return Aim(
        what, _where(results), shown, "≤ " + form.format(most), None if value is None else value <= most
    )


def _ratios(results: Results) -> list[Aim]:
    on_sqlite = results.database == "SQLite"
    one, register, hello = results.find("one"), results.find("register"), results.find("hello")
    found = []
    if one is not None:
        found.append(
            _at_least("GET one name, of the bare hello", results, one.ratio, 0.45 if on_sqlite else 0.25)
        )
    if register is not None:
        least = 0.4 if on_sqlite else 0.3
        loop = results.find("bare_one") if on_sqlite else None
        ratio = register.ratio if loop is None else replace(register, reference_rounds=loop.rounds).ratio
        found.append(_at_least("registrations, 16 clients, of the bare SQL loop", results, ratio, least))
        if loop is not None and register.ratio is not None:
            shown = f"{register.ratio:.2f}"
            found.append(Aim("… of the same with 16 in one commit", _where(results), shown, "", met=None))
        if on_sqlite and hello is not None:
            # 1,000 a second where hello reaches 20,000: a twentieth of it.
            aim = hello.per_second / 20
            found.append(
                _at_least(
                    "registrations a second, a twentieth of hello",
                    results,
                    register.per_second,
                    aim,
                    "{:,.0f}",
                )
            )
    return found


def _clients(results: Results) -> list[Aim]:
    rates = [(count, results.find(f"clients_{count}")) for count in CLIENTS]
    known = [(count, each) for count, each in rates if each is not None]
    if len(known) < 2:
        return []
    shown = ", ".join(f"{each.per_second:,.0f}" for _, each in known)
    # Where all of a core is in use already, more clients can't add anything; what they must not do is take away.
    rising = all(times(later.rounds, few.rounds) >= LEVEL for (_, few), (_, later) in pairwise(known))
    what = f"registrations a second at {', '.join(str(count) for count, _ in known)} clients"
    return [Aim(what, _where(results), shown, "more, not fewer", rising)]


CLIENTS = (1, 4, 16, 64)
LEVEL = 0.95
"""What counts as no fewer: rounds differ by some percent."""
READ_P99_MS, WRITE_P99_MS = 20, 100
DELAYS = {
    "read_p99_ms": ("GET one name at half load, p99", READ_P99_MS),
    "write_p99_ms": ("registrations at half load, p99", WRITE_P99_MS),
    "sweep_read_p99_ms": ("… reads while a sweep runs", READ_P99_MS),
    "sweep_write_p99_ms": ("… registrations while a sweep runs", WRITE_P99_MS),
    "check_read_p99_ms": ("… reads while the zone is checked", READ_P99_MS),
    "check_write_p99_ms": ("… registrations while the zone is checked", WRITE_P99_MS),
    "lists_read_p99_ms": ("… reads beside slow lists", READ_P99_MS),
}
"""The delays that are bounded: of which figure, what it is, and how many milliseconds it may be."""


def _delays(results: Results) -> list[Aim]:
    return [
        _at_most(what, results, results.values.get(name), most, "{:.0f} ms")
        for name, (what, most) in DELAYS.items()
        if name in results.values
    ]


def _processes(results: Results) -> list[Aim]:
    if results.database != "SQLite":
        return []
    found = []
    if "ready_seconds" in results.values:
        found.append(
            _at_most("sublet serve is ready", results, results.values["ready_seconds"], 1.5, "{:.2f} s")
        )
    if "rss_serve" in results.values:
        found.append(
            _at_most("its memory then (RSS)", results, results.values["rss_serve"], 150, "{:.0f} MiB")
        )
    return found


def _growths(small: Results, large: Results) -> list[Aim]:
    where = f"{large.database}, {small.names:,} to {large.names:,}"
    found = []
    for name, cost in growth(small, large).items():
        figure = small.find(name)
        title = name if figure is None else figure.title
        found.append(Aim(f"{title}: cost", where, f"{cost:.2f} times", "≤ 1.30 times", cost <= 1.3))
    roles = [name for name in small.values if name.startswith("pss_")]
    for name in roles:
        if name in large.values:
            grown = large.values[name] / small.values[name]
            role = name.removeprefix("pss_")
            found.append(Aim(f"memory of {role}", where, f"{grown:.2f} times", "≤ 1.10 times", grown <= 1.1))
    return found


def statements_of_lists(results: Results) -> list[Aim]:
    """Return whether a longer list takes more statements."""
    counts = {
        int(name.removeprefix("list_statements_")): value
        for name, value in results.values.items()
        if name.startswith("list_statements_")
    }
    if len(counts) < 2:
        return []
    shown = ", ".join(f"{value:.0f} for {size}" for size, value in sorted(counts.items()))
    return [Aim("statements of a list", _where(results), shown, "as many", len(set(counts.values())) == 1)]


def as_json(all_results: Sequence[Results], about: dict[str, Any]) -> dict[str, Any]:
    """Return all figures and aims as plain values."""
    return {
        "about": about,
        "registries": [
            {
                "database": each.database,
                "names": each.names,
                "values": each.values,
                "notes": each.notes,
                "figures": [
                    {
                        "name": one.name,
                        "title": one.title,
                        "per_second": round(one.per_second, 1),
                        "spread": round(one.spread, 3),
                        "rounds": [round(value, 1) for value in one.rounds],
                        "reference": one.reference,
                        "reference_rounds": [round(value, 1) for value in one.reference_rounds],
                        "ratio": None if one.ratio is None else round(one.ratio, 3),
                        "p50_ms": one.p50_ms,
                        "p99_ms": one.p99_ms,
                        "statements": one.statements,
                    }
                    for one in each.figures
                ],
            }
            for each in all_results
        ],
        "aims": [
            {"what": each.what, "where": each.where, "found": each.found, "aim": each.aim, "met": each.met}
            for each in aims(all_results)
        ],
    }
