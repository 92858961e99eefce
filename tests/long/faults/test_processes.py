"""Several `sublet serve` on one PostgreSQL: credits, names, coupons and keys are given out once, and limits hold, over all of them.

`make soak PART=processes` runs the same with 100 and 200 rounds.
"""

from collections.abc import Iterator
from pathlib import Path

import pytest

from long.faults import processes as process_trials
from support.postgresql import fresh_database
from support.race_checks import RACE_ROUNDS
from support.serve_process import ServeProcess

pytestmark = pytest.mark.slow


def test_credits_names_coupons_and_keys_are_given_out_once(postgresql_server: str, tmp_path: Path) -> None:
    with (
        fresh_database(postgresql_server) as url,
        process_trials.processes(url, tmp_path) as serving,
    ):
        process_trials.credits_are_spent_once(serving, RACE_ROUNDS)
        process_trials.name_goes_to_one(serving, 2 * RACE_ROUNDS)
        process_trials.coupon_is_used_once(serving, RACE_ROUNDS)
        process_trials.key_acts_once(serving, RACE_ROUNDS)


@pytest.fixture
def limited(postgresql_server: str, tmp_path: Path) -> Iterator[list[ServeProcess]]:
    with (
        fresh_database(postgresql_server) as url,
        process_trials.processes(
            url,
            tmp_path,
            SUBLET_RATE_LIMITS="on",
            SUBLET_RATE_LIMIT_WRITE_PER_MINUTE="40",
            SUBLET_RATE_LIMIT_FAILED_AUTH_PER_MINUTE="7",
        ) as serving,
    ):
        yield serving


def test_rate_limits_hold_over_all_processes(limited: list[ServeProcess]) -> None:
    services = [each.service for each in limited]
    ada = services[0].add_user()
    process_trials.limit_holds(services, ada, limit=40)
    process_trials.failures_are_counted(services, ada, limit=7)
