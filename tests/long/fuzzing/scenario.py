"""The fuzz run as a scenario, and its report."""

from collections import Counter
from typing import Any

import dns.rcode

from long.fuzzing.run import GROWTH_MIB_MAX, Asked, Fuzzed, fuzz
from long.scenario import FUZZ, SQLITE, Outcome, Scenario, Trial


def _counts(counter: Counter[Any]) -> str:
    return ", ".join(
        f"{name} {count:,}" for name, count in sorted(counter.items(), key=lambda each: str(each[0]))
    )


def lines_of(outcome: Fuzzed) -> list[str]:
    """Return the figures of a run, one a line."""
    http, packets = outcome.http, outcome.dns
    statuses = Counter({str(status or "closed without an answer"): n for status, n in http.statuses.items()})
    rcodes = Counter({dns.rcode.to_text(dns.rcode.Rcode(code)): n for code, n in packets.rcodes.items()})
    refused = sum(count for status, count in http.statuses.items() if status >= 500)
    memory = (("API", outcome.http_memory), ("name server", outcome.dns_memory))
    return [
        (f"requests: {http.requests:,}; beside them {outcome.busy:,} of the canary account"),
        f"  drawn by hypothesis: {_counts(http.kinds)}",
        f"  answers: {_counts(statuses)}; {refused} of 5xx",
        f"  the longest took {http.longest_seconds:.2f} s",
        (
            f"packets: {packets.packets:,}, of them {packets.over_tcp:,} over {packets.connections:,} TCP "
            f"connections; {packets.answers:,} answers, {packets.sent_again:,} sent again"
        ),
        f"  {_counts(packets.kinds)}",
        f"  answers: {_counts(rcodes)}",
        (
            f"  the largest over UDP: {packets.largest_bytes:,} octets, {packets.largest_factor:.1f} to one "
            f"of its packet; the zone's largest referral: {outcome.referral_bytes:,}, "
            f"{outcome.referral_factor:.1f} to one"
        ),
        f"  the longest wait took {packets.longest_seconds:.2f} s",
        f"inputs of parsers: {', '.join(f'{name} {count:,}' for name, count in outcome.inputs.items())}",
        *(
            f"memory of the {what}'s service: {each.before_mib:.1f} MiB after the warm-up, "
            f"{each.most_mib:.1f} at most since"
            for what, each in memory
        ),
        f"canaries: {outcome.canaries}, looked for in each answer and in "
        + ", ".join(f"{place} ({size / 2**20:.1f} MiB)" for place, size in outcome.places_bytes.items()),
        f"{outcome.seconds:,.0f} s, {len(outcome.findings)} findings",
    ]


def run(trial: Trial) -> Outcome:
    """Send `count` requests and five times as many packets, in twenty minutes unless the trial says
    otherwise.
    """
    seconds = trial.seconds or Asked.seconds
    asked = Asked(trial.seed, trial.count, 5 * trial.count, int(0.3 * trial.count), seconds=seconds)
    outcome = fuzz(asked)
    assert outcome.findings == [], "\n".join([*outcome.findings, *lines_of(outcome)])
    late = f"not sent in {seconds:,.0f} s: {'; '.join(outcome.short)}" if outcome.short else ""
    return Outcome("\n".join(lines_of(outcome)), late)


HOSTILE_INPUT = Scenario(
    "hostile-input",
    "Hostile requests and packets for two real `sublet serve` on SQLite, with planted canaries "
    f"(`tests/long/fuzzing/canaries.py`). The service must not grow by {GROWTH_MIB_MAX:g} MiB, answer with "
    "5xx or after more than 10 s, or show a canary to another account. Counted are requests.",
    run,
    {FUZZ: {SQLITE: 200_000}},
)
