"""Races over real HTTP connections, on both databases and over several processes.

Credits, quota, coupons, names and keys are given out once. `make soak ONLY='races/*'` runs more rounds.
"""

from collections.abc import Iterator
from pathlib import Path

import pytest

from long.faults.races import (
    COUNT,
    ROUNDS,
    check_coupon_is_used_once,
    check_credits_are_spent_once,
    check_key_acts_once,
    check_name_goes_to_one,
    check_one_life_is_lived,
    check_over_processes,
    check_quota_is_used_once,
    check_refund_and_spending,
    check_renewal_is_charged_once,
    check_writers_take_turns,
    processes,
)
from support.postgresql import fresh_database
from support.repetitions import share
from support.running_service import RunningService, initialised_postgresql, running_service

pytestmark = pytest.mark.slow

AT_ONCE = share(30, whole=COUNT)


@pytest.fixture
def racing(registry_url: str) -> Iterator[RunningService]:
    with running_service(registry_url) as service:
        service.add_domain()
        yield service


def test_credits_for_one_name_are_spent_once(racing: RunningService) -> None:
    check_credits_are_spent_once([racing], AT_ONCE)


@pytest.mark.whole_on_postgresql
def test_the_last_free_name_is_given_once(racing: RunningService) -> None:
    check_quota_is_used_once([racing], AT_ONCE, rounds=ROUNDS)


@pytest.mark.whole_on_postgresql
def test_a_coupon_for_one_use_is_used_once(racing: RunningService) -> None:
    check_coupon_is_used_once([racing], AT_ONCE, rounds=ROUNDS)


def test_a_name_is_deleted_renewed_and_changed_concurrently(racing: RunningService) -> None:
    check_one_life_is_lived(racing, AT_ONCE, rounds=ROUNDS)


@pytest.mark.whole_on_postgresql
def test_a_refund_while_the_user_spends(racing: RunningService) -> None:
    check_refund_and_spending(racing, AT_ONCE, rounds=ROUNDS)


def test_a_renewal_is_charged_once(racing: RunningService) -> None:
    check_renewal_is_charged_once(racing, AT_ONCE)


@pytest.mark.whole_on_postgresql
def test_writers_take_turns(racing: RunningService) -> None:
    check_writers_take_turns(racing)


@pytest.mark.whole_on_postgresql
def test_a_name_goes_to_one_of_two_users(racing: RunningService) -> None:
    check_name_goes_to_one([racing])
    assert racing.doctor() == []


@pytest.mark.whole_on_postgresql
def test_twenty_requests_with_one_key_take_effect_once(racing: RunningService) -> None:
    check_key_acts_once([racing])


def test_several_processes_spend_credits_names_coupons_and_keys_once(
    postgresql_server: str, tmp_path: Path
) -> None:
    with (
        fresh_database(postgresql_server, like=initialised_postgresql()) as url,
        processes(url, tmp_path) as serving,
    ):
        check_over_processes([each.service for each in serving], ROUNDS, AT_ONCE)
