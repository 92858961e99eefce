"""What is shown of every state is what its actions then do: `allowed_actions` and `renewal_available` against
all requests.

Generated: the product of the facts of a name (`states`), by those of its user, over HTTP at one running
service. An action is listed exactly where its request is answered 2xx, or with a quote.
"""

import json
from collections.abc import Iterator
from contextlib import closing
from dataclasses import dataclass
from datetime import datetime
from http.client import HTTPConnection
from itertools import product
from typing import Any
from urllib.parse import urlsplit

import pytest

from sublet.db import Tx
from sublet.doctor.credits import check_credits
from sublet.subdomains.lifecycle import ACTIONS, allowed_actions, renewal_available
from sublet.subdomains.model import Subdomain
from support.publisher_outage import service_with_outage
from support.repetitions import share
from support.running_service import Registrant, RunningService, registry_address
from support.subdomain_states import (
    ACTION_REQUESTS,
    ASKERS,
    DAY,
    STATES,
    Asker,
    State,
    add_names,
    put_user_into,
)

pytestmark = pytest.mark.slow

DOMAIN = "example.test"
PRICE = 10
ASKERS_HERE = [asker for asker in ASKERS if not asker.suspended or (asker.quota_left and asker.rich)]


def enters(asker: Asker, state: State) -> bool:
    """Tell whether a user's facts are asked for: the quota for free names, the balance for others, none when
    suspended.

    The verbs are put to the whole product in `tests/verbs/test_every_state_and_verb.py`.
    """
    return asker.suspended or (asker.rich if state.mode == "free" else asker.quota_left)


CASES = [case for case in product(ASKERS_HERE, STATES) if enters(*case)]
ASKED = CASES[:: share(3, whole=1)]
"""Those that are asked for: the verbs are put to all of them elsewhere, as above."""
REQUEST_ID = "the-same-for-all"


@dataclass(frozen=True, slots=True)
class Reply:
    """An answer of the API: its status and its octets."""

    status: int
    content: bytes

    def members(self) -> Any:
        """Return the JSON that it is."""
        return json.loads(self.content)


@dataclass(frozen=True, slots=True)
class House:
    """A running service whose publisher is held, with a user for each asker, and one connection for the many
    requests.
    """

    service: RunningService
    connection: HTTPConnection
    users: dict[Asker, Registrant]
    platform_domain_id: int

    def add(self, wanted: list[tuple[Asker, str, State]]) -> None:
        """Make names in these states, with labels of their own, and their users what they are to be."""

        def make(tx: Tx) -> None:
            rows = [(self.users[asker].id, label, state) for asker, label, state in wanted]
            add_names(tx, rows, self.platform_domain_id, DOMAIN)
            for asker, user in self.users.items():
                put_user_into(tx, user.id, asker)

        self.service.write(make)
        # The service has closed it meanwhile, if that took long; it is opened again by the next request.
        self.connection.close()

    def call(
        self, asker: Asker, method: str, label: str, suffix: str = "", body: dict[str, Any] | None = None
    ) -> Reply:
        """Send a request about a name."""
        headers = {"authorization": f"Bearer {self.users[asker].token}", "x-request-id": REQUEST_ID}
        content = None if body is None else json.dumps(body)
        if content is not None:
            headers["content-type"] = "application/json"
        path = urlsplit(self.service.base_url).path
        self.connection.request(
            method, f"{path}/subdomains/{label}.{DOMAIN}{suffix}", body=content, headers=headers
        )
        answer = self.connection.getresponse()
        return Reply(answer.status, answer.read())

    def send(self, asker: Asker, label: str, action: str, body: dict[str, Any] | None = None) -> Reply:
        """Send an action's request about a name."""
        method, suffix, good = ACTION_REQUESTS[action]
        return self.call(asker, method, label, suffix, good if body is None else body)


@pytest.fixture
def house(tmp_path_factory: pytest.TempPathFactory, monkeypatch: pytest.MonkeyPatch) -> Iterator[House]:
    url = registry_address(tmp_path_factory.mktemp("states"))
    with service_with_outage(url, monkeypatch, publish_wait_ms=0) as outage, outage.held():
        service = outage.service
        offer = ("--mode", "plus", "--price", "0", "--renewal-price", str(PRICE), "--period-days", "365")
        service.operator("domain", "offer", DOMAIN, *offer)
        users = {
            asker: service.add_user(f"{asker.name}@example.org", credit_count=10**6 if asker.rich else 0)
            for asker in ASKERS_HERE
        }
        with closing(HTTPConnection(urlsplit(service.base_url).netloc)) as connection:
            domain_id = service.operator("domain", "show", DOMAIN)["id"]
            yield House(service, connection, users, domain_id)
        assert service.read(check_credits) == []


@dataclass(frozen=True, slots=True)
class Shown:
    """What the service shows of a name: its actions, and whether it is there at all; `get_renewal` is None
    where GET has none.
    """

    actions: tuple[str, ...]
    there: bool
    renewal_available: bool
    get_renewal: bool | None


def shown(house: House, asker: Asker, label: str) -> Shown:
    """Ask for the timeline and the name."""
    timeline = house.call(asker, "GET", label, "/timeline")
    found = house.call(asker, "GET", label)
    get_renewal = found.members()["subdomain"]["renewal_available"] if found.status == 200 else None
    if timeline.status == 404:
        assert timeline == found
        return Shown((), there=False, renewal_available=False, get_renewal=None)
    assert timeline.status == 200, timeline
    body = timeline.members()
    actions = tuple(body["allowed_actions"])
    assert actions == tuple(action for action in ACTIONS if action in actions)
    return Shown(actions, there=True, renewal_available=body["renewal_available"], get_renewal=get_renewal)


def is_taken(answer: Reply) -> bool:
    """Tell whether a request was done, or quoted; else it must be refused for the state of things."""
    if answer.status == 402:
        return bool(answer.members()["error"] == "payment_confirmation_required")
    assert answer.status in (200, 403, 404, 409), answer
    return answer.status == 200


def check(house: House, cases: list[tuple[Asker, State]]) -> list[str]:
    """Compare what is shown with what is done, for each case and action; return what differs.

    A refusal leaves the name as it was, so the actions that aren't listed share one; each listed one has a
    fresh name.
    """
    different: list[str] = []
    asked = [(asker, f"n{number}", state) for number, (asker, state) in enumerate(cases)]
    house.add(asked)
    listed: list[tuple[Asker, str, State, str]] = []
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
            different.append(f"{asker} {state}: {action} is listed, and was refused: {answer}")
        elif answer.status == 402:
            confirmed = house.send(asker, label, action, {"confirm": True})
            assert confirmed.status == (200 if asker.rich else 402), confirmed
    return different


def test_an_action_is_listed_exactly_if_it_succeeds(house: House) -> None:
    assert len(set(CASES)) == len(CASES) > 1000
    assert set(ACTION_REQUESTS) == set(ACTIONS), "an action needs its request in ACTION_REQUESTS here"
    assert check(house, ASKED) == []


def without_a_window(subdomain: Subdomain, _now: datetime, *, user_suspended: bool) -> bool:
    """A renewal without its window and its rest: as at the expiry."""
    return renewal_available(subdomain, subdomain.expires_at + 2 * DAY, user_suspended=user_suspended)


def without_a_quota(subdomain: Subdomain, now: datetime, **facts: bool) -> tuple[str, ...]:
    """A restore that asks for no quota."""
    return allowed_actions(subdomain, now, **{**facts, "quota_left": True})


@pytest.mark.whole
@pytest.mark.parametrize(
    ("name", "broken", "trash", "told"),
    [
        ("renewal_available", without_a_window, "no", "renewal_available is not what `renew` is"),
        ("allowed_actions", without_a_quota, "left", "restore is listed, and was refused"),
    ],
)
def test_a_rule_that_contradicts_the_verbs_fails_the_test(
    house: House, monkeypatch: pytest.MonkeyPatch, name: str, broken: Any, trash: str, told: str
) -> None:
    """The test above can fail: what is shown goes by a broken rule, what is done by the true one."""
    cases = [
        (asker, state)
        for asker, state in CASES
        if state.trash == trash and state.nameservers and state.publication == "published"
    ]
    monkeypatch.setattr(f"sublet.subdomains.shapes.{name}", broken)
    different = check(house, cases)
    assert different
    assert all(told in each for each in different)
