"""Which pictures of a run there are: names of files, and what `svg.py` draws into them."""

from collections.abc import Sequence

from speed.figures import CLIENTS, DELAYS, NOT_GROWING, Results, growth
from speed.svg import draw_bars, draw_lines


def pictures(all_results: Sequence[Results]) -> dict[str, str]:
    """Return the pictures of a run by the names of their files, without `.svg`."""
    found = {"ratios": _ratios(all_results)}
    served = [each for each in all_results if each.find("one") is not None]
    if any(each.find(f"clients_{CLIENTS[0]}") for each in served):
        found["clients"] = _clients(served)
    if any("read_p99_ms" in each.values for each in served):
        found["delays"] = _delays(served)
    for database in dict.fromkeys(each.database for each in served):
        sizes = sorted((each for each in served if each.database == database), key=lambda each: each.names)
        if len(sizes) > 1:
            found[f"growth-{database.lower()}"] = _growth(database, sizes)
    return found


def _called(results: Results) -> str:
    return f"{results.database}, {results.names:,}"


def _ratios(all_results: Sequence[Results]) -> str:
    series = {
        _called(each): {
            f"{one.title} / {one.reference}": one.ratio
            for one in each.figures
            if one.ratio is not None and not one.name.startswith("clients_")
        }
        for each in all_results
    }
    rows = list(dict.fromkeys(row for each in series.values() for row in each))
    return draw_bars("What is reached of the references (1 is all of it)", rows, series)


def _clients(served: Sequence[Results]) -> str:
    counts = [count for count in CLIENTS if any(each.find(f"clients_{count}") for each in served)]
    series = {}
    for each in served:
        rates = [each.find(f"clients_{count}") for count in counts]
        if any(rates):
            series[_called(each)] = [None if one is None else one.per_second for one in rates]
    return draw_lines("Registrations a second, by clients", counts, series, across="clients", form="{:,.0f}")


def _delays(served: Sequence[Results]) -> str:
    titles = {name: title for name, (title, _) in DELAYS.items()}
    series = {
        _called(each): {title: each.values[name] for name, title in titles.items() if name in each.values}
        for each in served
    }
    limits = {title: float(limit) for title, limit in DELAYS.values()}
    return draw_bars(
        "p99 at half load, milliseconds (dashed: the most it may be)",
        list(titles.values()),
        series,
        form="{:.0f}",
        aims=limits,
    )


def _growth(database: str, sizes: Sequence[Results]) -> str:
    times = [growth(sizes[0], each) for each in sizes]
    names = [each for each in times[-1] if each not in NOT_GROWING and not each.startswith("clients_")]
    titles = {each.name: each.title for each in sizes[0].figures}
    series = {titles[name]: [each.get(name) for each in times] for name in names}
    return draw_lines(
        f"{database}: what a request costs, and what it costs at {sizes[0].names:,} names",
        [each.names for each in sizes],
        series,
        across="names",
        aim=1.3,
    )
