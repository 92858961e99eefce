"""What is shown of every state is what its actions then do: `allowed_actions` and `renewal_available` against all requests.

Generated: the whole product of the facts of a name and of its user (`states`), over HTTP, at one running service. An action
is listed exactly where its request is answered 2xx, or with a quote.
"""

from collections.abc import Iterator
from dataclasses import dataclass
from itertools import product
from typing import Any

import httpx
import pytest

import sublet.http.render
from outage import service_with_outage
from service import Registrant, RunningService
from states import ACTION_REQUESTS, ASKERS, STATES, Asker, State, add_names, put_user_into
from sublet.credits.check_ledger import check_ledger
from sublet.db import Tx
from sublet.subdomains.lifecycle import ACTIONS
from sublet.subdomains.model import Subdomain

DOMAIN = "example.test"
PRICE = 10


@dataclass(frozen=True, slots=True)
class House:
    """A running service whose publisher is held, with a user for each asker."""

    service: RunningService
    users: dict[Asker, Registrant]

    def add(self, wanted: list[tuple[Asker, str, State]]) -> None:
        """Make names in these states, with labels of their own, and their users what they are to be."""

        def make(tx: Tx) -> None:
            for user in self.users.values():
                put_user_into(tx, user.id, None)
            add_names(tx, [(self.users[asker].id, label, state) for asker, label, state in wanted], DOMAIN)
            for asker, user in self.users.items():
                put_user_into(tx, user.id, asker)

        self.service.write(make)

    def send(
        self, asker: Asker, label: str, action: str, body: dict[str, Any] | None = None
    ) -> httpx.Response:
        """Send an action's request about a name."""
        method, suffix, good = ACTION_REQUESTS[action]
        path = f"/subdomains/{label}.{DOMAIN}{suffix}"
        return self.service.call(self.users[asker], method, path, good if body is None else body)


@pytest.fixture
def house(tmp_path_factory: pytest.TempPathFactory, monkeypatch: pytest.MonkeyPatch) -> Iterator[House]:
    url = f"sqlite:///{tmp_path_factory.mktemp('states')}/registry.db"
    with service_with_outage(url, monkeypatch, publish_wait_ms=0) as outage, outage.held():
        service = outage.service
        offer = ("--mode", "plus", "--price", "0", "--renewal-price", str(PRICE), "--period-days", "365")
        service.operator("domain", "offer", DOMAIN, *offer)
        users = {
            asker: service.add_user(f"{asker.name}@example.org", credit_count=10**6 if asker.rich else 0)
            for asker in ASKERS
        }
        yield House(service, users)
        assert service.read(check_ledger) == []


@dataclass(frozen=True, slots=True)
class Shown:
    """What the service shows of a name: its actions, and whether it is there at all; `get_renewal` is None where GET has none."""

    actions: tuple[str, ...]
    there: bool
    renewal_available: bool
    get_renewal: bool | None


def shown(house: House, asker: Asker, label: str) -> Shown:
    """Ask for the timeline and the name."""
    user, path = house.users[asker], f"/subdomains/{label}.{DOMAIN}"
    timeline = house.service.call(user, "GET", f"{path}/timeline")
    found = house.service.call(user, "GET", path)
    get_renewal = found.json()["subdomain"]["renewal_available"] if found.status_code == 200 else None
    if timeline.status_code == 404:
        assert found.content.replace(found.json()["request_id"].encode(), b"") == timeline.content.replace(
            timeline.json()["request_id"].encode(), b""
        )
        return Shown((), there=False, renewal_available=False, get_renewal=None)
    assert timeline.status_code == 200, timeline.text
    body = timeline.json()
    actions = tuple(body["allowed_actions"])
    assert actions == tuple(action for action in ACTIONS if action in actions)
    return Shown(actions, there=True, renewal_available=body["renewal_available"], get_renewal=get_renewal)


def is_taken(answer: httpx.Response) -> bool:
    """Tell whether a request was done, or quoted; else it must be refused for the state of things."""
    if answer.status_code in (200, 201):
        return True
    if answer.status_code == 402:
        return bool(answer.json()["error"] == "payment_confirmation_required")
    assert answer.status_code in (403, 404, 409), answer.text
    return False


def check(house: House, cases: list[tuple[Asker, State]]) -> list[str]:
    """Compare what is shown with what is done, for each case and action; return what differs.

    A refusal leaves the name as it was, so the actions that aren't listed share one; each listed one has a fresh name.
    """
    different = []
    asked = [(asker, f"n{number}", state) for number, (asker, state) in enumerate(cases)]
    house.add(asked)
    listed = []
    for asker, label, state in asked:
        found = shown(house, asker, label)
        assert found.there == (state.trash != "over" or state.suspended), (asker, state)
        assert (found.get_renewal is not None) == (state.trash == "no"), (asker, state)
        if found.renewal_available != ("renew" in found.actions) or found.get_renewal not in (
            None,
            found.renewal_available,
        ):
            different.append(f"{asker} {state}: renewal_available is not what `renew` is")
        for action in ACTIONS:
            if action in found.actions:
                listed.append((asker, f"{label}-{len(listed)}", state, action))
            elif is_taken(house.send(asker, label, action)):
                different.append(f"{asker} {state}: {action} is not listed, and was done")
    house.add([(asker, label, state) for asker, label, state, _ in listed])
    for asker, label, state, action in listed:
        answer = house.send(asker, label, action)
        if not is_taken(answer):
            different.append(f"{asker} {state}: {action} is listed, and was refused: {answer.text}")
        elif answer.status_code == 402:
            confirmed = house.send(asker, label, action, {"confirm": True})
            assert confirmed.status_code == (200 if asker.rich else 402), confirmed.text
    return different


def test_an_action_is_listed_exactly_where_it_is_done(house: House) -> None:
    cases = list(product(ASKERS, STATES))
    assert len(set(cases)) == len(cases) > 3000
    assert set(ACTION_REQUESTS) == set(ACTIONS)
    assert check(house, cases) == []


def test_the_comparison_finds_a_rule_that_is_not_the_verbs(
    house: House, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The test above can fail: what is shown goes by a renewal without a window and a rest, what is done by the true one."""
    cases = [
        (asker, state)
        for asker, state in product(ASKERS, STATES)
        if state.trash == "no" and state.nameservers and state.publication == "published"
    ]
    rule = sublet.http.render.renewal_available

    def without_a_window(subdomain: Subdomain, now: Any, *, user_suspended: bool) -> bool:
        return rule(subdomain, subdomain.expires_at, user_suspended=user_suspended)

    assert check(house, cases) == []
    monkeypatch.setattr(sublet.http.render, "renewal_available", without_a_window)
    assert check(house, cases)
