"""The rule `allowed_actions` agrees with the verbs, for all combinations of facts; on both databases.

One name is put into each state, and each verb is tried on it in a savepoint that is rolled back.
"""

from collections.abc import Callable

import pytest

from sublet.accounts.store import lock_user
from sublet.audit import Actor
from sublet.credits.model import Outcome, Payable
from sublet.db import Tx
from sublet.errors import PaymentConfirmationRequired, Refusal
from sublet.subdomains import store
from sublet.subdomains.dates.set_auto_renew import set_auto_renew
from sublet.subdomains.delete import delete
from sublet.subdomains.lifecycle import ACTIONS, allowed_actions, renewal_available
from sublet.subdomains.model import UpdateNameservers
from sublet.subdomains.quota import Quota, quota_limit
from sublet.subdomains.renew import renew
from sublet.subdomains.restore import restore
from sublet.subdomains.retry import retry
from sublet.subdomains.update_nameservers import update_nameservers
from support.registry import Registry
from support.repetitions import share
from support.subdomain_states import ASKERS, NS1, STATES, Asker, State, put_into, put_user_into

pytestmark = pytest.mark.slow

QUOTA = 10
CHUNK = 12
QUOTE = Payable()
VERBS: dict[str, Callable[[Tx, Actor, str], Outcome]] = {
    "update_nameservers": lambda tx, actor, name: update_nameservers(
        tx, actor, name, UpdateNameservers(nameservers=(NS1, "ns2.provider.example"))
    ),
    "retry": retry,
    "renew": lambda tx, actor, name: renew(tx, actor, name, QUOTE),
    "set_auto_renew": lambda tx, actor, name: set_auto_renew(tx, actor, name, 5, may_spend=True),
    "delete": delete,
    "restore": lambda tx, actor, name: restore(tx, actor, name, QUOTE, free_quota=QUOTA),
}


def done(tx: Tx, actor: Actor, name: str, action: str) -> bool:
    """Return True if a verb succeeds or gives a quote. Roll its changes back."""
    savepoint = tx.connection.begin_nested()
    try:
        VERBS[action](tx, actor, name)
    except PaymentConfirmationRequired:
        return True
    except Refusal:
        return False
    finally:
        savepoint.rollback()
    return True


@pytest.mark.whole_on_postgresql
def test_allowed_actions_agree_with_the_verbs(registry: Registry) -> None:
    """The rule ignores the balance, so only the test over HTTP varies it."""
    ids = {
        mode: registry.register(f"{mode}.example.test", registration_mode=mode).id
        for mode in ("free", "plus")
    }
    user_id, actor = registry.users["ann"], registry.actor()
    assert set(VERBS) == set(ACTIONS), "a verb of lifecycle.ACTIONS needs an entry in VERBS here"

    def compare(tx: Tx, asker: Asker, state: State) -> None:
        subdomain_id = ids[state.mode]
        put_into(tx, subdomain_id, state)
        user, subdomain = lock_user(tx, user_id), store.find_subdomain(tx, subdomain_id)
        assert user is not None
        assert subdomain is not None
        quota = Quota(store.count_free(tx, user_id), quota_limit(user.free_quota, QUOTA))
        assert quota.allows_one_more == asker.quota_left
        listed = allowed_actions(
            subdomain, tx.now, user_suspended=user.suspended_at is not None, quota_left=quota.allows_one_more
        )
        found = tuple(action for action in ACTIONS if done(tx, actor, str(subdomain_id), action))
        assert listed == found, (asker, state)
        renewable = renewal_available(subdomain, tx.now, user_suspended=user.suspended_at is not None)
        assert renewable == ("renew" in listed), (asker, state)

    def compare_some(tx: Tx, asker: Asker, states: list[State]) -> None:
        put_user_into(tx, user_id, asker)
        for state in states:
            compare(tx, asker, state)

    # Several transactions, because PostgreSQL keeps each version of a row until the transaction's end.
    states = STATES[:: share(5, whole=1)]
    for asker in {Asker(each.suspended, each.quota_left, rich=True) for each in ASKERS}:
        for first in range(0, len(states), CHUNK):
            registry.write(compare_some, asker, states[first : first + CHUNK])
