"""The machine's share of `make test`, and that it would notice. `make soak` is the long run."""

from collections import Counter
from collections.abc import Callable
from datetime import timedelta
from typing import Any

import pytest

from long.machine.coverage import missed
from long.machine.machine import STEPS
from long.machine.run import RUNS
from long.machine.soak import Ran, run
from sublet.platform_domains import zone_store
from sublet.subdomains import charge, lifecycle, register, renew, store
from sublet.subdomains.sweep import sweep
from support.repetitions import WHOLE, share

pytestmark = pytest.mark.slow

OPERATIONS = share(600, whole=20_000)


def test_the_registry_behaves_like_the_model() -> None:
    # Fixed, so that a failure belongs to the change under test; the long runs draw new seeds.
    first = 20261130
    outcomes: Counter[tuple[str, str]] = Counter()
    # One run of many may miss a rare outcome; then further seeds must see it.
    for number in range(first, first + 3 * -(-OPERATIONS // (RUNS * STEPS))):
        if sum(outcomes.values()) >= OPERATIONS and not (WHOLE and missed(outcomes)):
            break
        print(f"once more: make soak ONLY='machine/*' COUNT=1 SEED={number}")
        ran = run(number)
        assert ran.failed_at is None, f"make soak ONLY='machine/*' COUNT=1 SEED={number}\n{ran.trace}"
        outcomes.update(ran.outcomes)
    assert sum(outcomes.values()) >= OPERATIONS
    assert not WHOLE or missed(outcomes) == []


def _no_rest(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(lifecycle, "RENEWAL_REST", timedelta(0))


def _forget_the_dns(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(store, "next_generation_if_in_dns", lambda _subdomain: {})


def _forget_updates(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(zone_store, "insert_zone_update", lambda *_: None)


def _charge_twice(monkeypatch: pytest.MonkeyPatch) -> None:
    quote_and_check = charge.quote_and_check

    def dearer(*args: Any, list_price: int, **named: Any) -> Any:
        return quote_and_check(*args, list_price=list_price * 2, **named)

    monkeypatch.setattr(register, "quote_and_check", dearer)


def _late_start(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(renew, "next_term_start", lambda _subdomain, now, _days: now)


def _keep_what_dangles(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sweep, "handle_dependents", lambda *_: None)


TWINS = (_keep_what_dangles, _no_rest, _forget_the_dns, _forget_updates, _charge_twice, _late_start)


@pytest.mark.whole
@pytest.mark.parametrize("break_it", TWINS, ids=lambda each: each.__name__.strip("_"))
def test_a_broken_twin_fails_and_its_seed_fails_again_at_the_same_step(
    break_it: Callable[[pytest.MonkeyPatch], None], monkeypatch: pytest.MonkeyPatch
) -> None:
    break_it(monkeypatch)
    failed = _first_failure()
    again = run(failed.seed)
    assert again.failed_at == failed.failed_at
    assert again.outcomes == failed.outcomes


def _first_failure() -> Ran:
    for number in range(1, 20):
        ran = run(number)
        if ran.failed_at is not None:
            return ran
    raise AssertionError("nineteen seeds passed")
