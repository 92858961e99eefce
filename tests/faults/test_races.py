"""Races over real HTTP connections, on both databases: money, quota, coupons, names and keys are each given out once."""

from collections.abc import Iterator

import pytest

from races import (
    check_coupon_is_used_once,
    check_credits_are_spent_once,
    check_key_acts_once,
    check_name_goes_to_one,
    check_quota_is_used_once,
)
from service import RunningService, running_service


@pytest.fixture
def racing(database_url: str) -> Iterator[RunningService]:
    with running_service(database_url) as service:
        yield service


def test_credits_for_one_are_spent_once(racing: RunningService) -> None:
    check_credits_are_spent_once(racing)


def test_the_last_free_name_is_given_once(racing: RunningService) -> None:
    check_quota_is_used_once(racing)


def test_a_coupon_for_one_use_is_used_once(racing: RunningService) -> None:
    check_coupon_is_used_once(racing)


def test_a_name_goes_to_one_of_two_users(racing: RunningService) -> None:
    check_name_goes_to_one(racing)
    assert racing.doctor() == []


def test_one_key_twenty_times_acts_once(racing: RunningService) -> None:
    check_key_acts_once(racing)
