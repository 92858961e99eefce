"""The page that `bench_scale.py` prints."""

import sys
from datetime import UTC, datetime
from typing import Any

import scale_model
from scale_processes import ROLES


def print_page(found: dict[str, Any], names: int, sqlite_bytes: int) -> None:
    """Print the report."""
    print("# What a request and a name cost\n")
    print(
        f"`make bench-scale`, {datetime.now(UTC):%Y-%m-%d}, Python {sys.version.split()[0]}: a registry of {names:,} names, PostgreSQL with fsync,"
    )
    print(
        "one process of each role, the built-in name server. Processor time as the kernel counts it, on a machine with two cores that had other"
    )
    print("work too; so it is a little more than on a quiet one.\n")
    print("## Processor time, milliseconds a request\n")
    columns = [*ROLES, *(f"postgresql, {role}" for role in ROLES), "rest"]
    print(
        f"| | {' | '.join([*ROLES, *(f'PostgreSQL for {role}' for role in ROLES), 'its own work'])} | sum | commits | log, bytes | SQLite: serve |"
    )
    print("|---|" + "---:|" * (len(columns) + 4))
    for cost, other in zip(found["requests"], found["sqlite"], strict=True):
        cells = [f"{cost.ms.get(name, 0):.2f}" for name in columns]
        counted = f"{cost.commits:.1f} | {cost.wal_bytes:,.0f} | {other.ms['serve']:.2f}"
        print(f"| {cost.what} | {' | '.join(cells)} | {sum(cost.ms.values()):.2f} | {counted} |")
    print("\nThe first line is milliseconds a second, the others include it.")
    print("\n## Statements of one registration, one at a time\n")
    print(
        "| | "
        + " | ".join(ROLES)
        + " | with the house's account locked, COMMIT included |\n|---|"
        + "---:|" * 4
    )
    for mode, counts in found["statements"].items():
        cells = [f"{counts.counts[role]:.0f}" for role in ROLES]
        print(f"| {'paid' if mode == 'plus' else 'free'} | {' | '.join(cells)} | {counts.house or '-'} |")
    print_names(found, names, sqlite_bytes)
    print("\n## Other rates, simulated\n")
    costs = costs_of(found)
    print(f"`bench/scale_model.py`, with {costs}\n")
    scale_model.print_table(costs, scale_model.ZONE_MS)


def print_names(found: dict[str, Any], names: int, sqlite_bytes: int) -> None:
    """Print what names and processes take of disk, memory and time."""
    print("\n## Bytes in the database\n")
    print("| Table | rows a name | table, bytes a name | indexes, bytes a name |\n|---|---:|---:|---:|")
    tables = sorted(found["sizes"].items(), key=lambda each: -sum(each[1][1:]))
    for table, (rows, own, indexes) in tables[:8]:
        print(f"| {table} | {rows / names:.2f} | {own / names:.0f} | {indexes / names:.0f} |")
    own, indexes = (sum(each[place] for _, each in tables) / names for place in (1, 2))
    print(f"| all | | {own:.0f} | {indexes:.0f} |")
    print(f"\nThe same in SQLite: {sqlite_bytes / names:.0f} bytes a name, all in all.")
    print("\n## Processes\n\n| | memory (PSS), MB | connections |\n|---|---:|---:|")
    for role in ROLES:
        print(f"| {role} | {found['memory'][role]:.0f} | {found['connections'].get(role, 0)} |")
    print(
        "\n## The whole\n\n| | its processor time, s | PostgreSQL's, s | memory, MB |\n|---|---:|---:|---:|"
    )
    for what in ("check", "doctor"):
        own, theirs, memory = found[what]
        name = "sublet zone check" if what == "check" else "sublet doctor"
        print(f"| `{name}`, {names:,} names | {own:.0f} | {theirs:.0f} | {memory:.0f} |")
    for each, what in (
        (found["publishing"], f"publication of {names:,} names, 100 at a time"),
        (found["sweep"], f"a look of the sweep at each of {names:,} names"),
    ):
        own = (each.ms["worker"] + each.ms["dns"]) * names / 1000
        theirs = (each.ms["postgresql, worker"] + each.ms["postgresql, dns"]) * names / 1000
        print(f"| {what} | {own:.0f} | {theirs:.0f} | |")


def costs_of(found: dict[str, Any]) -> scale_model.Costs:
    """Return what the simulation needs of what was measured."""
    _, single, many, paid, _, read, _, _ = (each.ms for each in found["requests"])
    full = found["publishing"].ms
    by_name = full["worker"] + full["dns"]
    statements = found["statements"]["free"].counts["api"]
    house = found["statements"]["plus"].house - 1
    return scale_model.Costs(
        api=paid["api"],
        postgresql=paid["postgresql, api"],
        read_api=read["api"],
        read_postgresql=read["postgresql, api"],
        batch=max(0.0, single["worker"] + single["dns"] - by_name),
        name=by_name,
        published=full["postgresql, worker"] + full["postgresql, dns"],
        # A statement takes the API and PostgreSQL their share of the whole request's time.
        house=(many["api"] + many["postgresql, api"]) * house / statements,
    )
