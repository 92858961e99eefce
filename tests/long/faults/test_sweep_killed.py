"""The sweep, killed with SIGKILL again and again in the middle of its steps: each step is done once, and each
mail written once.
"""

import random
import signal
from collections import Counter
from datetime import timedelta
from pathlib import Path

import pytest
from sqlalchemy import select

from sublet.audit import Actor
from sublet.credits.model import Payable
from sublet.db import Tx
from sublet.doctor.running import check_sweep
from sublet.mail.store import mails
from sublet.subdomains import store
from sublet.subdomains.delete import delete
from sublet.subdomains.model import Register
from sublet.subdomains.register import register
from sublet.subdomains.sweep import store as sweep_store
from sublet.subdomains.sweep.store import milestones
from support.crash_checks import zone_is_right
from support.running_service import Registrant, RunningService, registry_address
from support.serve_process import ServeProcess, serve_process, wait_until

pytestmark = pytest.mark.slow

AGES = (300, 306, 336, 359, 364.5, 366, 380, 396, 420, 426)
"""How many days ago names were registered: by now each has reached another part of its life, but the last
waits longest.
"""
DELETED = {"d25": 25, "d31": 31, "d60": 60}
STEPS = Counter(
    {
        "renewal_opens": 8,
        "expires_in_30_days": 8,
        "expires_in_7_days": 7,
        "expires_in_1_day": 6,
        "expired": 5,
        "trashed": 3,
        "trash_ends": 3,
        "purged": 2,
    }
)
"""The steps that are due at once, with one automatic renewal; no sweep ran before."""
MAILS = Counter(
    {
        "expires_in_30_days": 1,
        "expires_in_7_days": 1,
        "expires_in_1_day": 1,
        "expired": 2,
        "trashed": 3,
        "trash_ends": 1,
    }
)
"""Only the last reminder of each name, and none after its expiry."""


def furnish(service: RunningService) -> Registrant:
    """Register names long ago, and delete some of them later."""
    service.add_domain()
    ada = service.add_user(credit_count=100)
    actor = Actor("user", user_id=ada.id)
    for days in AGES:
        _at(service, days, actor, f"n{str(days).replace('.', '-')}", delete_it=False)
    for label, days in DELETED.items():
        _at(service, 70, actor, label, delete_it=False)
        _at(service, days, actor, label, delete_it=True)
    return ada


def _at(service: RunningService, days: float, actor: Actor, label: str, *, delete_it: bool) -> None:
    service.clock.ahead = -timedelta(days=days)
    name = f"{label}.example.test"

    def run(tx: Tx) -> None:
        sweep_store.update_sweep_state(tx, seen_at=tx.now)  # the clock was right then
        act(tx)
        sweep_store.update_sweep_state(tx, seen_at=None)  # and no sweep has run since

    def act(tx: Tx) -> None:
        if delete_it:
            delete(tx, actor, name)
            return
        command = Register(
            fqdn=name,
            nameservers=("ns1.provider.example", "ns2.provider.example"),
            registration_mode="plus" if label == "n306" else "free",
            payable=Payable(confirm=True),
        )
        outcome = register(tx, actor, command, free_quota=100)
        if label == "n306":
            store.update_subdomain(tx, outcome.id, auto_renew_max_credits=10)

    service.write(run)
    service.clock.ahead = timedelta()


def done(service: RunningService) -> Counter[str]:
    """Which milestones are there?"""
    return service.read(lambda tx: Counter(tx.connection.execute(select(milestones.c.kind)).scalars()))


def written(service: RunningService) -> Counter[str]:
    """Of which milestones is there mail?"""

    def ask(tx: Tx) -> Counter[str]:
        return Counter(
            each.partition(":")[0] for each in tx.connection.execute(select(mails.c.reference)).scalars()
        )

    return service.read(ask)


def at_rest(service: RunningService) -> bool:
    """Is nothing due any more?"""
    return service.read(
        lambda tx: not sweep_store.list_due(tx, 1) and not sweep_store.list_losses(tx, 1)
    ) and zone_is_right(service)


def check_each_step_is_done_once(serving: ServeProcess, *, seed: int, kills: int = 5) -> None:
    """Kill the service after some number of statements of the sweep, again and again; then let it come to
    rest.
    """
    service = serving.service
    ada = furnish(service)
    chosen = random.Random(seed)  # noqa: S311 - where to kill, no secret
    for _ in range(kills):
        serving.start(f"sweep:{chosen.randrange(1, 120)}", wait=False)
        wait_until(lambda: serving.ended() or at_rest(service))
        if not serving.ended():
            serving.stop(signal.SIGKILL)
        else:
            assert serving.wait() == -signal.SIGKILL
    serving.start()
    wait_until(lambda: at_rest(service))
    found = done(service)
    assert found.pop("auto_renewed") == 1
    assert found == STEPS
    told = written(service)
    assert told.pop("auto_renew") == 1
    assert told == MAILS
    payments = service.call(ada, "GET", "/payments").json()["payments"]
    assert [each["description"].partition(" of ")[0] for each in payments if each["kind"] == "charge"] == [
        "Automatic renewal",
        "Registration",
    ]
    assert service.doctor() == []
    assert service.read(check_sweep) == []
    assert serving.stop() == 0


@pytest.mark.whole
def test_a_sweep_killed_many_times_does_each_step_once(tmp_path: Path) -> None:
    with serve_process(registry_address(tmp_path), tmp_path) as serving:
        check_each_step_is_done_once(serving, seed=1)
