"""The fuzz run as a scenario, and its report."""

from collections import Counter
from typing import Any

import dns.rcode

from long.fuzzing.run import GROWTH_MIB_MAX, Asked, Fuzzed, fuzz
from long.scenario import FUZZ, SQLITE, Outcome, Scenario, Trial


def _counts(counter: Counter[Any]) -> str:
    return ", ".join(f"{name} {count:,}" for name, count in sorted(counter.items()))


def lines_of(outcome: Fuzzed) -> list[str]:
    """Return the figures of a run, one a line."""
    packets, memory = outcome.dns, outcome.memory
    rcodes = Counter({dns.rcode.to_text(dns.rcode.Rcode(code)): n for code, n in packets.rcodes.items()})
    return [
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
        f"memory: {memory.before_mib:.1f} MiB after the warm-up, {memory.most_mib:.1f} at most since",
        f"{outcome.seconds:,.0f} s, {len(outcome.findings)} findings",
    ]


def run(trial: Trial) -> Outcome:
    """Send `count` packets, in twenty minutes unless the trial says otherwise."""
    seconds = trial.seconds or Asked.seconds
    outcome = fuzz(Asked(trial.seed, trial.count, int(0.06 * trial.count), seconds=seconds))
    assert outcome.findings == [], "\n".join([*outcome.findings, *lines_of(outcome)])
    late = f"not sent in {seconds:,.0f} s: {'; '.join(outcome.short)}" if outcome.short else ""
    return Outcome("\n".join(lines_of(outcome)), late)


HOSTILE_INPUT = Scenario(
    "hostile-input",
    "Hostile packets for the name server of a real `sublet serve` on SQLite, and inputs for the parsers of "
    f"names, DS records and packets. The service must not grow by {GROWTH_MIB_MAX:g} MiB, answer with "
    "SERVFAIL, hang, or answer with more octets than a referral. Counted are packets.",
    run,
    {FUZZ: {SQLITE: 1_000_000}},
)
