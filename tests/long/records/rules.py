"""Random records: the rule accepts what the zone checkers of Knot and BIND accept, except for the listed
policy.
"""

from long.scenario import SOAK, SQLITE, Outcome, Scenario, Trial
from support.zone_checkers import STRICTER, compare


def _run(trial: Trial) -> Outcome:
    judged = compare(trial.seed, trial.count, trial.folder)
    reasons = "; ".join(STRICTER.values())
    return Outcome(
        f"{', '.join(f'{how}: {count}' for how, count in judged.most_common())} | stricter: {reasons}"
    )


RECORD_RULES = Scenario(
    "record-rules",
    "Random lists of RRsets, valid and invalid, are judged by the rule of records, Knot's `kzonecheck` and "
    "BIND's `named-checkzone`. Where both programs agree, the rule agrees, except for the listed policy. "
    "Counts lists.",
    _run,
    {SOAK: {SQLITE: 1000}},
)
