"""The tables of a run: Markdown, for the terminal and for docs/performance.md, where they stand between two marks."""

from collections.abc import Sequence

from speed.figures import Aim, Figure, Results, aims, growth

BEGINS = "<!-- figures: written by make bench -->"
ENDS = "<!-- end of the figures -->"

SITUATIONS = {
    "": "at half load",
    "sweep_": "… while a sweep runs",
    "check_": "… while the zone is checked",
    "lists_": "… beside slow lists",
    "more_": "at two thirds or so",
    "more_check_": "… while the zone is checked",
}
WHAT = {
    "read": "reads of a name",
    "write": "registrations",
    "hello": "the bare hello in place of both",
}


def render(all_results: Sequence[Results], about: str) -> str:
    """Return all tables of a run."""
    parts = [about]
    parts += [_rates(each) for each in all_results]
    parts += _growth(all_results)
    parts.append(_aims(aims(all_results)))
    return "\n\n".join(parts)


def rows(head: Sequence[str], lines: Sequence[Sequence[str]]) -> str:
    """Return a table; all columns but the first stand to the right."""
    rule = "|---|" + "---:|" * (len(head) - 1)
    return "\n".join([f"| {' | '.join(head)} |", rule, *(f"| {' | '.join(line)} |" for line in lines)])


def _rates(results: Results) -> str:
    head = ("", "a second", "spread", "of", "ratio", "p50 ms", "p99 ms", "statements")
    title = f"### {results.database}, {results.names:,} names"
    values = "\n".join(f"- {line}" for line in [*results.notes, *_others(results)])
    return "\n\n".join(
        part for part in (title, rows(head, [_rate(each) for each in results.figures]), values) if part
    )


def _delays(values: dict[str, float]) -> list[str]:
    """Return what requests waited, in sentences."""
    lines = []
    if "most_mixed" in values:
        lines.append(f"the most of nine reads to one registration: {values['most_mixed']:,.0f} a second")
    for prefix, situation in SITUATIONS.items():
        for kind, what in WHAT.items():
            name = f"{prefix}{kind}"
            if f"{name}_p99_ms" in values:
                shown = [f"{part} {values[f'{name}_{part}_ms']:.1f} ms" for part in ("p50", "p99", "max")]
                rate, asked, late = (values[f"{name}_{part}"] for part in ("rate", "asked", "late"))
                tardy = f"; {late:.0f} began late" if late else ""
                sent = f"{rate:,.0f} of {asked:,.0f} a second"
                lines.append(f"{situation}: {what}, {sent}: {', '.join(shown)}{tardy}")
    paces = [values[f"{prefix}pace"] for prefix in SITUATIONS if f"{prefix}pace" in values]
    if paces:
        lines.append(
            f"the processors' pace while the delays were measured: the slowest {min(paces) / max(paces):.2f} of the quickest"
        )
    looked = [prefix for prefix in SITUATIONS if f"{prefix}stolen" in values]
    if looked:
        again = sum(values[f"{prefix}again"] for prefix in looked)
        most = max(values[f"{prefix}stolen"] for prefix in looked)
        lines.append(
            f"the host took {most:.1%} of the processors for others meanwhile, at most; {again:.0f} rounds don't count, since it took more"
        )
    return lines


def _others(results: Results) -> list[str]:
    """Return what is no rate, in sentences."""
    values = results.values
    lines = _delays(values)
    if "answer_p50_ms" in values:
        p50, p99 = values["answer_p50_ms"], values["answer_p99_ms"]
        lines.append(
            f"from a registration to the built-in name server's answer: p50 {p50:.0f} ms, p99 {p99:.0f} ms"
        )
    if "rest_seconds" in values:
        lines.append(f"all that a round had changed was published {values['rest_seconds']:.1f} s after it")
    if "ready_seconds" in values:
        lines.append(f"start until all is ready: {values['ready_seconds']:.2f} s")
    roles = [name.removeprefix("pss_") for name in values if name.startswith("pss_")]
    for role in roles:
        fresh, loaded, shared = values[f"rss_{role}"], values[f"rss_{role}_loaded"], values[f"pss_{role}"]
        lines.append(
            f"memory of `{role}`: {fresh:.0f} MiB at first, {loaded:.0f} after the load (RSS; PSS {shared:.0f})"
        )
    lists = sorted(int(name.rpartition("_")[2]) for name in values if name.startswith("list_statements_"))
    if lists:
        counts = ", ".join(f"{values[f'list_statements_{size}']:.0f} of {size}" for size in lists)
        lines.append(f"statements of a list: {counts}")
    return lines


def _rate(figure: Figure) -> tuple[str, ...]:
    return (
        figure.title,
        f"{figure.per_second:,.0f}",
        f"{figure.spread:.0%}",
        figure.reference,
        "" if figure.ratio is None else f"**{figure.ratio:.2f}**",
        f"{figure.p50_ms:.1f}" if figure.p50_ms else "",
        f"{figure.p99_ms:.1f}" if figure.p99_ms else "",
        "" if figure.statements is None else str(figure.statements),
    )


def _growth(all_results: Sequence[Results]) -> list[str]:
    found = []
    for database in dict.fromkeys(each.database for each in all_results):
        sizes = sorted(
            (each for each in all_results if each.database == database), key=lambda each: each.names
        )
        if len(sizes) < 2:
            continue
        times = [growth(sizes[0], each) for each in sizes[1:]]
        titles = {each.name: each.title for each in sizes[0].figures}
        head = (f"{database}: cost at", *(f"{each.names:,}" for each in sizes))
        lines = [
            (titles[name], "1", *(f"{each[name]:.2f}" if name in each else "" for each in times))
            for name in times[-1]
        ]
        found.append("### What grows\n\n" + rows(head, lines))
    return found


def _aims(found: Sequence[Aim]) -> str:
    answers = {True: "yes", False: "**no**", None: "-"}
    lines = [(each.what, each.where, each.found, each.aim, answers[each.met]) for each in found]
    return "### What was to be shown\n\n" + rows(("", "registry", "found", "aim", "met"), lines)


def put_between(page: str, text: str) -> str:
    """Return a page with this text between its marks, whatever stood there before.

    Raises:
        ValueError: the page doesn't have each mark once, in their order.
    """
    before, begins, rest = page.partition(BEGINS)
    _, ends, after = rest.partition(ENDS)
    if not begins or not ends or BEGINS in rest or ENDS in after:
        raise ValueError(f"the page needs the lines {BEGINS!r} and {ENDS!r}, once each")
    return f"{before}{BEGINS}\n\n{text}\n\n{ENDS}{after}"
