"""Viewing availability: it agrees with a registration by the same user; on both databases."""

import random
from collections import Counter
from dataclasses import dataclass
from datetime import timedelta

import pytest
from sqlalchemy import update

from sublet.accounts.find import find_user
from sublet.accounts.store import users
from sublet.credits.model import Payable
from sublet.credits.store import ledger_accounts
from sublet.db import Tx
from sublet.dns.types import Record
from sublet.errors import PlatformDomainNotFound, Refusal, ValidationFailed
from sublet.platform_domains import zone_store
from sublet.platform_domains.labels import block_labels, set_label
from sublet.platform_domains.model import MODES
from sublet.platform_domains.store import offers, platform_domains
from sublet.structs import replace
from sublet.subdomains.availability import Availability, view_availability
from sublet.subdomains.delete import delete
from sublet.subdomains.model import Register
from sublet.subdomains.purge import purge
from sublet.subdomains.register import register
from sublet.subdomains.sweep.store import update_sweep_state
from support.dangling_delegations import store_unchecked
from support.registry import FREE_QUOTA, OPERATOR, START, Registry
from support.repetitions import share

ZONE = "example.test"
LABELS = (
    *("new", "ab", "gold", "city", "town", "shame", "casino", "www", "login", "hosts", "xn--bcher-kva"),
    *("mine", "theirs", "my-trash", "their-trash", "my-past", "their-past", "released"),
    *("adopted", "nested", "depended", "m\u0430il", "\u0455\u0441\u043e\u0440\u0435", "sc\u043epe"),
)


def ask(registry: Registry, fqdn: str, name: str = "ann", *, may_spend: bool = True) -> Availability:
    """Return the availability of a name, in a read transaction, which takes no locks."""

    def read(tx: Tx) -> Availability:
        user = find_user(tx, str(registry.users[name]))
        return view_availability(
            tx, registry.actor(name), user, Register(fqdn=fqdn), free_quota=FREE_QUOTA, may_spend=may_spend
        )

    return registry.read(read)


def furnish(registry: Registry) -> None:
    """Add a name of every kind in `LABELS`."""
    write = registry.write
    registry.add_user("carl", credit_count=1000, free_quota=100)
    write(set_label, OPERATOR, ZONE, "gold", "premium", price_credits=60, renewal_price_credits=6)
    write(set_label, OPERATOR, ZONE, "city", "special", organizations=(str(registry.organizations["ann"]),))
    write(set_label, OPERATOR, ZONE, "town", "special", organizations=(str(registry.organizations["ben"]),))
    write(set_label, OPERATOR, ZONE, "shame", "blocked")
    write(block_labels, OPERATOR, "cas*")
    for label in ("mine", "my-trash", "my-past"):
        registry.register(f"{label}.{ZONE}", registration_mode="plus")
    for label in ("theirs", "their-trash", "their-past", "released", "scope"):
        registry.register(f"{label}.{ZONE}", "carl")
    registry.write(store_unchecked, registry.register(f"other.{ZONE}", "carl"), f"ns1.depended.{ZONE}")
    past = ("my-past", "their-past", "released")
    for label in ("my-trash", "their-trash", *past):
        write(delete, registry.actor("ann" if label.startswith("my") else "carl"), f"{label}.{ZONE}")
    for label in past:
        write(purge, OPERATOR, f"{label}.{ZONE}", release=label == "released")
    registry.add_domain(f"deep.nested.{ZONE}")
    adopted = Record(f"adopted.{ZONE}", "A", 300, "8.8.8.8")
    write(lambda tx: zone_store.insert_records(tx, registry.domains[ZONE], [adopted]))


@dataclass(frozen=True)
class State:
    """The facts other than the name: about the user, the token, the platform domain and the clock."""

    is_suspended: bool = False
    free_quota: int = 100
    balance: int = 100
    may_spend: bool = True
    is_open: bool = True
    modes: tuple[str, ...] = MODES
    seen_days_ago: int = 0

    def put(self, tx: Tx, user_id: int, platform_domain_id: int) -> None:
        suspended_at = tx.now if self.is_suspended else None
        of_user = users.c.id == user_id
        of_domain = offers.c.platform_domain_id == platform_domain_id
        for change in (
            update(users).where(of_user).values(suspended_at=suspended_at, free_quota=self.free_quota),
            update(ledger_accounts).where(ledger_accounts.c.user_id == user_id).values(balance=self.balance),
            update(platform_domains)
            .where(platform_domains.c.id == platform_domain_id)
            .values(registration_open=self.is_open),
            update(offers).where(of_domain & offers.c.mode.not_in(self.modes)).values(withdrawn_at=tx.now),
        ):
            tx.connection.execute(change)
        update_sweep_state(tx, seen_at=tx.now - timedelta(days=self.seen_days_ago))


def draw_state(draw: random.Random) -> State:
    """Return a state in which most registrations pass the first checks, so that the tests reach the later
    checks too.
    """
    return State(
        is_suspended=draw.random() < 0.1,
        free_quota=draw.choice((0, 100)),
        balance=draw.choice((0, 45, 100)),
        may_spend=draw.random() < 0.7,
        is_open=draw.random() < 0.9,
        modes=draw.choice((MODES, MODES, ("free",), ("plus", "premium"), ())),
        seen_days_ago=500 if draw.random() < 0.1 else 0,
    )


@pytest.mark.whole_on_postgresql
def test_a_name_is_available_exactly_if_a_registration_succeeds(registry: Registry) -> None:
    """Tested for every label in the most permissive state, and for random pairs of label and state."""
    furnish(registry)
    draw = random.Random(26)  # noqa: S311 - the same states in each run
    pairs = [(State(), label) for label in LABELS]
    pairs += [(draw_state(draw), draw.choice(LABELS)) for _ in range(share(150, whole=300))]
    user_id, actor = registry.users["ann"], registry.actor()
    reasons: Counter[str | None] = Counter()

    def try_out(tx: Tx, command: Register) -> str | None:
        """Try a registration, roll it back, and return its error code, or None if it succeeds."""
        savepoint = tx.connection.begin_nested()
        try:
            register(tx, actor, command, free_quota=FREE_QUOTA)
        except Refusal as refusal:
            return refusal.code
        finally:
            savepoint.rollback()
        return None

    def compare(tx: Tx, state: State, label: str) -> None:
        savepoint = tx.connection.begin_nested()
        state.put(tx, user_id, registry.domains[ZONE])
        command = Register(fqdn=f"{label}.{ZONE}", payable=Payable(confirm=True, may_spend=state.may_spend))
        found = view_availability(
            tx,
            actor,
            find_user(tx, str(user_id)),
            command,
            free_quota=FREE_QUOTA,
            may_spend=state.may_spend,
        )
        reason = found.refusal.code if found.refusal else None
        if found.modes:
            for mode in MODES:
                chosen = try_out(tx, replace(command, registration_mode=mode))
                is_refused = chosen in ("registration_mode_not_allowed", "free_quota_exceeded")
                assert (mode in [each.mode for each in found.modes]) != is_refused, (state, label, mode)
        assert reason == try_out(tx, command), (state, label)
        reasons[reason] += 1
        savepoint.rollback()

    for state, label in pairs:
        registry.write(compare, state, label)
    assert set(reasons) == {
        *(None, "account_suspended", "clock_implausible", "registration_closed", "subdomain_unavailable"),
        *(
            "registration_mode_not_allowed",
            "free_quota_exceeded",
            "insufficient_scope",
            "insufficient_credits",
        ),
    }


def test_the_modes_have_the_prices_of_the_name(registry: Registry) -> None:
    furnish(registry)
    for label, modes in (
        ("new", [("free", 0, 0, 365), ("plus", 10, 11, 365)]),
        ("gold", [("premium", 60, 6, 365)]),
        ("city", [("special", 70, 71, 365)]),
    ):
        found = ask(registry, f"{label.upper()}.Example.test.")
        assert (found.fqdn, found.refusal, found.available_at) == (f"{label}.{ZONE}", None, None)
        assert [
            (each.mode, each.price_credits, each.renewal_price_credits, each.period_days)
            for each in found.modes
        ] == modes
    assert ask(registry, f"theirs.{ZONE}").modes == ()
    broke = ask(registry, f"gold.{ZONE}", may_spend=False)
    assert broke.refusal is not None
    assert (broke.refusal.code, [each.mode for each in broke.modes]) == ("insufficient_scope", ["premium"])
    for text, refusal in (("a.missing.test", PlatformDomainNotFound), (f"a.b.{ZONE}", ValidationFailed)):
        with registry.refuses(refusal):
            ask(registry, text)
    for number in range(FREE_QUOTA - 1):
        registry.register(f"n{number}.{ZONE}")
    registry.register(f"last.{ZONE}", registration_mode="free")
    assert [each.mode for each in ask(registry, f"new.{ZONE}").modes] == ["plus"]


def test_the_date_is_shown_to_the_holder_only(registry: Registry) -> None:
    furnish(registry)
    days = {"mine": 365 + 30 + 30 + 7, "my-trash": 30 + 7, "my-past": 7}
    for label, after in days.items():
        assert ask(registry, f"{label}.{ZONE}").available_at == START + timedelta(days=after)
        assert ask(registry, f"{label}.{ZONE}", "ben").available_at is None
    for label in ("theirs", "their-trash", "their-past", "new"):
        assert ask(registry, f"{label}.{ZONE}").available_at is None
