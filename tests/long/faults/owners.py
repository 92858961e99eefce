"""Two members of an organization act at once: delete the account or the organization, leave, demote, remove,
accept an invitation or a name.

After each pair, every name, all credits and every organization must have a living owner, and the doctor finds
nothing. `OWNERS` runs all pairs at length.
"""

import asyncio
from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass
from itertools import combinations_with_replacement, count

from long.scenario import POSTGRESQL, SOAK, SQLITE, Outcome, Scenario, Trial, registry_on
from sublet.accounts.users import add_user
from sublet.audit import Actor
from sublet.credits.entries import grant_credits
from sublet.db import Tx
from sublet.doctor.accounts import check_owners
from sublet.errors import Refusal, Unavailable
from sublet.organizations.invitations import accept_invitation, invite_member
from sublet.organizations.organization import (
    create_organization,
    remove_member,
    set_role,
    set_role_as_operator,
)
from sublet.registry.delete_organization import delete_organization
from sublet.registry.delete_user import delete_own_user
from sublet.subdomains.transfers.move import accept
from sublet.subdomains.transfers.push import push
from support.registry import OPERATOR, Registry, open_registry, prepare
from support.shared_names import STRANGER, URL, account, mailed_code

FREE_QUOTA = 9
ATTEMPTS = 5
_NUMBERS = count(1)
Verb = Callable[[Tx], object]


@dataclass(frozen=True, slots=True)
class Pair:
    """An organization of two owners.

    Each has a name that is offered to the other, and has invited the same third person.
    """

    registry: Registry
    organization_id: int
    slug: str
    account_id: int
    emails: tuple[str, str]
    user_ids: tuple[int, int]
    offers: tuple[str, str]
    """The ids of the offers that each owner may accept."""
    codes: tuple[str, str]
    """The codes of the invitations that each owner sent."""
    guest: tuple[int, str]

    def actor(self, number: int, *, for_organization: bool = False) -> Actor:
        """Return the actor of a request of an owner, with a token for the organization if wanted."""
        account_id = self.account_id if for_organization else None
        return Actor(
            "user", user_id=self.user_ids[number], token_id=1, request_id="r-1", account_id=account_id
        )


def make_pair(registry: Registry, *, has_property: bool, guest_has_account: bool) -> Pair:
    """Create an organization with two owners.

    With `has_property` it holds credits, so that its last owner can't go.
    """
    number = next(_NUMBERS)
    names = [f"{each}{number}" for each in ("first", "second", "guest")]
    for name in names[: 3 if guest_has_account else 2]:
        registry.add_user(name)
    first, second, guest = (f"{name}@example.org" for name in names)
    made = registry.write(create_organization, registry.actor(names[0]), f"Coop {number}", created_max=3)
    registry.write(set_role_as_operator, OPERATOR, str(made.id), second, "owner")
    account_id = account(registry, made.id)
    if has_property:
        registry.write(grant_credits, OPERATOR, f"organization:{made.id}", 7, "test")
    offers, codes = [], []
    for mine, name, other in ((first, names[0], second), (second, names[1], first)):
        fqdn = f"{name}.example.test"
        registry.register(fqdn, name)
        offers.append(str(registry.write(push, registry.actor(name), fqdn, other, URL).id))
        invited = guest if mine == first else f"other-{guest}"
        registry.write(invite_member, registry.actor(name), str(made.id), invited, "owner", URL)
        codes.append(mailed_code(registry, invited))
    return Pair(
        registry,
        made.id,
        made.slug,
        account_id,
        (first, second),
        (registry.users[names[0]], registry.users[names[1]]),
        (offers[1], offers[0]),
        (codes[0], codes[1]),
        (registry.users.get(names[2], 0), guest),
    )


def _delete_guest(pair: Pair, tx: Tx) -> object:
    """The invited person deletes the account; without an account, an operator adds one."""
    user_id, email = pair.guest
    if not user_id:
        return add_user(tx, OPERATOR, email, "Guest")
    return delete_own_user(tx, Actor("user", user_id=user_id, token_id=1, request_id="r-1"), email)


ACTIONS: dict[str, Callable[[Pair, int], Verb]] = {
    "delete me": lambda pair, me: lambda tx: delete_own_user(tx, pair.actor(me), pair.emails[me]),
    "delete organization": lambda pair, me: (
        lambda tx: delete_organization(tx, pair.actor(me), str(pair.organization_id), pair.slug)
    ),
    "leave": lambda pair, me: (
        lambda tx: remove_member(tx, pair.actor(me), str(pair.organization_id), str(pair.user_ids[me]))
    ),
    "demote": lambda pair, me: (
        lambda tx: set_role(
            tx, pair.actor(me), str(pair.organization_id), str(pair.user_ids[1 - me]), "viewer"
        )
    ),
    "remove": lambda pair, me: (
        lambda tx: remove_member(tx, pair.actor(me), str(pair.organization_id), str(pair.user_ids[1 - me]))
    ),
    # The invitation that the other owner has sent.
    "accept": lambda pair, me: (
        lambda tx: accept_invitation(tx, STRANGER, pair.codes[1 - me], opens_accounts=True)
    ),
    # The name of the other owner, for the organization.
    "transfer": lambda pair, me: (
        lambda tx: accept(tx, pair.actor(me, for_organization=True), pair.offers[me], free_quota=FREE_QUOTA)
    ),
    "delete guest": lambda pair, _me: lambda tx: _delete_guest(pair, tx),
}
PAIRS = tuple(combinations_with_replacement(ACTIONS, 2))


def run_at_once(registry: Registry, *verbs: Verb) -> list[object]:
    """Run verbs in concurrent transactions, and return their results.

    A refusal is a result; any other error is raised.
    """

    async def attempt(verb: Verb) -> object:
        try:
            return await registry.db.write(verb)
        except Refusal as refusal:
            return refusal

    async def run() -> list[object]:
        return list(await asyncio.gather(*map(attempt, verbs)))

    found: list[object] = registry.run(run())
    return found


def check_pairs(registry: Registry, rounds: int) -> Counter[str]:
    """Run each pair of actions, and check that all have an owner.

    Return how often both, one and none of the actions succeeded.
    """
    outcomes: Counter[str] = Counter()
    for one, other in PAIRS:
        for turn in range(rounds):
            codes = _run_round(registry, one, other, turn)
            outcomes[f"{2 - len(codes)} of 2"] += 1
    assert registry.doctor() == []
    return outcomes


def _run_round(registry: Registry, one: str, other: str, turn: int) -> list[str]:
    """Run two actions, check that all have an owner, and return the codes of the refusals.

    On a busy machine an action may not get its locks in time, which is `unavailable`. Then other people run
    the round again.
    """
    for _ in range(ATTEMPTS):
        pair = make_pair(registry, has_property=turn % 2 == 1, guest_has_account=turn % 4 < 2)
        done = run_at_once(registry, ACTIONS[one](pair, 0), ACTIONS[other](pair, 1))
        codes = [each.code for each in done if isinstance(each, Refusal)]
        assert "internal_error" not in codes, (one, other, turn, done)
        assert registry.read(lambda tx: list(check_owners(tx))) == [], (one, other, turn)
        if Unavailable.code not in codes:
            return codes
    raise AssertionError(f"{one} and {other} were unavailable {ATTEMPTS} times, turn {turn}")


def _run_trial(trial: Trial) -> Outcome:
    with registry_on(trial) as url:
        prepared = prepare(url)
        with open_registry(url, prepared) as registry:
            outcomes = check_pairs(registry, trial.count)
    told = ", ".join(f"{kind} {number}" for kind, number in sorted(outcomes.items()))
    return Outcome(f"{len(PAIRS)} pairs, {trial.count} rounds each; actions that succeeded: {told}")


OWNERS = Scenario(
    "owners",
    "two people of an organization act at once, in every pair of: delete the account or the organization, "
    "leave, demote, remove, accept an invitation or a name; counted are rounds of each pair; no name, "
    "credit or organization loses its owner",
    _run_trial,
    {SOAK: {POSTGRESQL: 50, SQLITE: 10}},
)
