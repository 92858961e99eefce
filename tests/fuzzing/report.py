"""What a fuzz run tells: lines for people, and the same figures as JSON."""

import json
import platform
import sqlite3
from collections import Counter
from dataclasses import fields, is_dataclass
from datetime import UTC, datetime
from importlib.metadata import version
from pathlib import Path
from typing import Any

import dns.rcode

from fuzzing.canaries import FORBIDDEN
from fuzzing.run import GROWTH_MIB_MAX, Asked, Outcome
from machine.soak import commit


def _counts(counter: Counter[Any]) -> str:
    return ", ".join(
        f"{name} {count:,}" for name, count in sorted(counter.items(), key=lambda each: str(each[0]))
    )


def lines_of(outcome: Outcome) -> list[str]:
    """Return what was done and found, in lines."""
    http, packets = outcome.http, outcome.dns
    statuses = Counter({str(status or "closed without an answer"): n for status, n in http.statuses.items()})
    rcodes = Counter({dns.rcode.to_text(dns.rcode.Rcode(code)): n for code, n in packets.rcodes.items()})
    refused = sum(count for status, count in http.statuses.items() if status >= 500)
    memory = (("API", outcome.http_memory), ("name server", outcome.dns_memory))
    return [
        (
            f"requests: {http.requests + outcome.schemathesis_cases:,}, of them {outcome.schemathesis_cases:,} by schemathesis; "
            f"beside them {outcome.busy:,} of the canary account"
        ),
        f"  drawn by hypothesis: {_counts(http.kinds)}",
        f"  answers: {_counts(statuses)}; {refused} of 5xx",
        f"  the longest took {http.longest_seconds:.2f} s",
        (
            f"packets: {packets.packets:,}, of them {packets.over_tcp:,} over {packets.connections:,} TCP connections; "
            f"{packets.answers:,} answers, {packets.sent_again:,} sent again"
        ),
        f"  {_counts(packets.kinds)}",
        f"  answers: {_counts(rcodes)}",
        (
            f"  the largest over UDP: {packets.largest_bytes:,} octets, {packets.largest_factor:.1f} to one of its packet; "
            f"the zone's largest referral: {outcome.referral_bytes:,}, {outcome.referral_factor:.1f} to one"
        ),
        f"  the longest wait took {packets.longest_seconds:.2f} s",
        f"inputs of parsers: {', '.join(f'{name} {count:,}' for name, count in outcome.inputs.items())}",
        *(
            f"memory of the {what}'s service: {each.before_mib:.1f} MiB after the warm-up, {each.most_mib:.1f} at most since"
            for what, each in memory
        ),
        f"canaries: {outcome.canaries}, looked for in each answer and in "
        + ", ".join(f"{place} ({size / 2**20:.1f} MiB)" for place, size in outcome.places_bytes.items()),
        f"{outcome.seconds:,.0f} s, {len(outcome.findings)} findings",
        *(f"FOUND: {each}" for each in outcome.findings),
        *(f"SHORT: {each}" for each in outcome.short),
    ]


def _plain(value: object) -> object:
    """Return what JSON has a form for. Not by `asdict`, which makes a Counter of a Counter's pairs."""
    if is_dataclass(value) and not isinstance(value, type):
        return {each.name: _plain(getattr(value, each.name)) for each in fields(value)}
    if isinstance(value, dict):
        return {str(key): _plain(each) for key, each in value.items()}
    if isinstance(value, list | tuple):
        return [_plain(each) for each in value]
    return value


def write_report(folder: Path, asked: Asked, outcome: Outcome) -> None:
    """Write fuzz.md and fuzz.json."""
    versions = {
        "sublet": commit(),
        "Python": platform.python_version(),
        "SQLite": sqlite3.sqlite_version,
        **{name: version(name) for name in ("dnspython", "hypothesis", "schemathesis")},
    }
    page = [
        "# Fuzz",
        "",
        "Hostile requests and packets at two real `sublet serve` on SQLite, with canaries planted; `make fuzz` makes this page.",
        "",
        f"- {datetime.now(UTC):%Y-%m-%d}, {', '.join(f'{name} {text}' for name, text in versions.items())}",
        f"- seed {asked.seed}; asked for {asked.requests:,} requests and {asked.packets:,} packets in {asked.seconds:,.0f} s at most",
        f"- it must not grow by {GROWTH_MIB_MAX:g} MiB, answer with 5xx or later than after 10 s, nor show a canary to another account",
        "",
        *(f"    {line}" for line in lines_of(outcome)),
        "",
        "Where a canary must not be, beside the answers to other accounts:",
        "",
        "| canary | not in |",
        "|---|---|",
        *(f"| {kind} | {', '.join(sorted(places))} |" for kind, places in FORBIDDEN.items()),
        "",
    ]
    (folder / "fuzz.md").write_text("\n".join(page), encoding="utf-8")
    figures = {"versions": versions, "asked": _plain(asked), "outcome": _plain(outcome)}
    (folder / "fuzz.json").write_text(json.dumps(figures, indent=1, sort_keys=True) + "\n", encoding="utf-8")
