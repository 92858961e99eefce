"""Races over real HTTP connections, on both databases and over several processes.

Credits, quota, coupons, names and keys are given out once. `make soak ONLY='races/*'` runs more rounds.
"""

import signal
from collections.abc import Iterator
from pathlib import Path

import pytest

from long.faults.races import (
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
    failures_are_counted,
    limit_holds,
    processes,
    register_at_once,
)
from support.crash_checks import zone_is_right
from support.postgresql import fresh_database
from support.running_service import RunningService, initialised_postgresql, running_service
from support.serve_process import serve_process, wait_until

pytestmark = pytest.mark.slow


@pytest.fixture
def racing(registry_url: str) -> Iterator[RunningService]:
    with running_service(registry_url) as service:
        service.add_domain()
        yield service


def test_credits_for_one_name_are_spent_once(racing: RunningService) -> None:
    check_credits_are_spent_once([racing])


def test_the_last_free_name_is_given_once(racing: RunningService) -> None:
    check_quota_is_used_once([racing], rounds=ROUNDS)


def test_a_coupon_for_one_use_is_used_once(racing: RunningService) -> None:
    check_coupon_is_used_once([racing], rounds=ROUNDS)


def test_a_name_is_deleted_renewed_and_changed_concurrently(racing: RunningService) -> None:
    check_one_life_is_lived(racing, rounds=ROUNDS)


def test_a_refund_while_the_user_spends(racing: RunningService) -> None:
    check_refund_and_spending(racing, rounds=ROUNDS)


def test_a_renewal_is_charged_once(racing: RunningService) -> None:
    check_renewal_is_charged_once(racing)


def test_writers_take_turns(racing: RunningService) -> None:
    check_writers_take_turns(racing)


def test_a_name_goes_to_one_of_two_users(racing: RunningService) -> None:
    check_name_goes_to_one([racing])
    assert racing.doctor() == []


def test_twenty_requests_with_one_key_take_effect_once(racing: RunningService) -> None:
    check_key_acts_once([racing])


def test_two_services_on_one_database_stay_consistent(postgresql_server: str, tmp_path: Path) -> None:
    """Two processes, each with a publisher, on one PostgreSQL: names go to one, zone and registry agree; one
    is killed.
    """
    with (
        fresh_database(postgresql_server, like=initialised_postgresql()) as url,
        serve_process(url, tmp_path) as first,
        serve_process(url, tmp_path) as second,
    ):
        for serving in (first, second):
            serving.start()
        first.service.add_domain()
        check_name_goes_to_one([first.service, second.service])
        service = first.service
        carl = service.add_user("carl@example.org")
        names = [f"m{number}.example.test" for number in range(20)]
        for wave in range(2):
            nameservers = [f"ns{wave}.provider.example", f"ns{wave}.other.example"]
            if wave == 0:
                answers = register_at_once(
                    [service], [(carl, {"fqdn": name, "nameservers": nameservers}, {}) for name in names]
                )
                assert {each.status_code for each in answers} == {201}
                continue
            for number, name in enumerate(names):
                asked = (first, second)[number % 2].service
                body = {"nameservers": nameservers}
                answer = asked.call(carl, "PUT", f"/subdomains/{name}/nameservers", body)
                assert answer.status_code == 200, answer.text
        wait_until(lambda: zone_is_right(service))
        assert service.doctor() == []
        assert all(service.delegation(name) == set(nameservers) for name in names[:5])
        first.stop(signal.SIGKILL)
        other = second.service
        other.register(carl, "last.example.test", nameservers=["ns1.provider.example"])
        wait_until(lambda: zone_is_right(other))
        assert other.delegation("last.example.test") == {"ns1.provider.example"}
        assert other.doctor() == []


def test_several_processes_spend_credits_names_coupons_and_keys_once(
    postgresql_server: str, tmp_path: Path
) -> None:
    with (
        fresh_database(postgresql_server, like=initialised_postgresql()) as url,
        processes(url, tmp_path) as serving,
    ):
        check_over_processes([each.service for each in serving], ROUNDS)


def test_rate_limits_hold_over_all_processes(postgresql_server: str, tmp_path: Path) -> None:
    limits = {
        "SUBLET_RATE_LIMITS": "on",
        "SUBLET_RATE_LIMIT_WRITE_PER_MINUTE": "40",
        "SUBLET_RATE_LIMIT_FAILED_AUTH_PER_MINUTE": "7",
    }
    with (
        fresh_database(postgresql_server, like=initialised_postgresql()) as url,
        processes(url, tmp_path, environment=limits) as serving,
    ):
        services = [each.service for each in serving]
        ada = services[0].add_user()
        limit_holds(services, ada, limit=40)
        failures_are_counted(services, ada, limit=7)
