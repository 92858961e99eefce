"""Compare the clients' parsers of values with the service's rules, on many random spellings."""

from long.scenario import SOAK, SQLITE, Outcome, Scenario, Trial
from support.spellings import KINDS, compare


def run(trial: Trial) -> Outcome:
    """Compare `count` spellings of each kind of value."""
    told = []
    for name, kind in KINDS.items():
        compared = compare(kind, trial.seed, trial.count)
        assert compared.differences == [], "\n".join([f"{name}:", *compared.differences[:20]])
        told.append(f"{name}: {compared.accepted:,} accepted, {compared.refused:,} refused, 0 differences")
    return Outcome("\n".join(told))


SPELLINGS = Scenario(
    "spellings",
    "Random spellings of names, addresses, networks, DS records, mail addresses, instants and other "
    "values, valid and not. The clients' parser returns the form that the service stores, or both refuse. "
    "Counts spellings of each kind.",
    run,
    {SOAK: {SQLITE: 10_000}},
)
