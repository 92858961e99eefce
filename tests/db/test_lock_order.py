"""PostgreSQL: concurrent transactions wait for each other's locks without a deadlock."""

from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from datetime import timedelta
from functools import partial
from threading import Event

import pytest
from sqlalchemy import Engine
from sqlalchemy.pool import NullPool

from sublet.accounts import store as account_store
from sublet.accounts.tokens.tokens import create_token
from sublet.accounts.users import add_user
from sublet.credits.entries import grant_credits
from sublet.db import Outdated, Tx
from sublet.db.connect import postgresql_engine
from sublet.errors import Conflict, NotFound, OrganizationNotFound, ValidationFailed
from sublet.organizations.find import lock_as_owner
from sublet.organizations.invitations import (
    accept_invitation,
    accept_received_invitation,
    decline_invitation,
    invite_member,
    revoke_invitation,
)
from sublet.organizations.organization import remove_member, rename_organization, set_role_as_operator
from sublet.platform_domains import zone_store
from sublet.primaries.publisher_transactions import (
    Result,
    begin_publication,
    record_publication,
    record_refusal,
    record_zone_fault,
    settle_fence,
)
from sublet.registry.delete_organization import delete_organization
from sublet.registry.delete_user import delete_own_user, delete_user
from sublet.sign_in.codes import request_code
from sublet.sign_in.devices.device import start_device
from sublet.sign_in.identify import identify_by_code, identify_by_passkey
from sublet.sign_in.passkeys import remove_passkey
from sublet.sign_in.store import list_passkeys
from sublet.sign_up.sign_up import SignUp, confirm_sign_up, invite, sign_up
from sublet.sign_up.store import list_open_invitations
from sublet.subdomains import published_owner_store, store
from sublet.subdomains.delete import delete
from sublet.subdomains.model import Register, UpdateNameservers
from sublet.subdomains.purge import purge
from sublet.subdomains.register import register
from sublet.subdomains.retry import retry
from sublet.subdomains.sweep.sweep import sweep
from sublet.subdomains.transfers.move import transfer
from sublet.subdomains.update_nameservers import update_nameservers
from support.interleaving import count_blocked, interleave
from support.kept_registry import KeptRegistry
from support.registry import OPERATOR, Registry
from support.shared_names import STRANGER, URL, account, mailed_code, role_of, share
from support.signing_in import SITE, new_passkey, newest_code, options, session_actor, sign_in, texts_to
from support.waiting import wait_until

ZONE = "example.test"
SHOP = f"shop.{ZONE}"
FAULT = ("no_answer", "main does not answer", "The name server does not answer.")


@pytest.fixture
def registry(postgresql_kept_registry: KeptRegistry) -> Iterator[Registry]:
    """A registry whose zone is marked as on a primary."""
    registry = postgresql_kept_registry.restored()
    registry.move()
    yield registry
    postgresql_kept_registry.end_tasks()


@pytest.fixture
def engine(registry: Registry) -> Engine:
    """An engine for transactions that the test holds open."""
    return postgresql_engine(registry.url, poolclass=NullPool)


def test_a_retry_and_a_zone_fault_do_not_deadlock(registry: Registry, engine: Engine) -> None:
    domain_id = registry.domains[ZONE]
    held = registry.register(SHOP, nameservers=("ns1.example.org",))
    batch = registry.write(begin_publication, domain_id)
    assert batch is not None
    registry.write(record_zone_fault, domain_id, batch.items, *FAULT)
    interleave(
        registry,
        engine,
        lambda tx: zone_store.update_zone_state(tx, domain_id, problem=FAULT[0]),
        lambda tx: retry(tx, registry.actor(), SHOP),
        lambda tx: record_zone_fault(tx, domain_id, batch.items, *FAULT),
    )
    assert registry.subdomain(held.id).attempts == 0, "the retry came after the fault"
    assert registry.read(zone_store.find_zone_state, domain_id).next_attempt_at is None


def test_recording_a_refusal_waits_for_the_settlement_of_the_fence(
    registry: Registry, engine: Engine
) -> None:
    """Both lock names and their owners, in different orders."""
    domain_id = registry.domains[ZONE]
    registry.register(SHOP, nameservers=("ns1.example.org",))
    batch = registry.write(begin_publication, domain_id)
    assert batch is not None
    (item,) = batch.items
    refused = Result(item, error="in use", cause="in_use", nothing_applied=True)
    interleave(
        registry,
        engine,
        lambda tx: settle_fence(tx, domain_id, batch.fence, batch.next_fence),
        lambda tx: record_refusal(tx, domain_id, refused),
        lambda tx: record_publication(tx, {item.subdomain_id: Result(item, serial=7)}, batch),
    )
    assert registry.subdomain(item.subdomain_id).published_generation == 1
    assert registry.read(published_owner_store.list_published_owners_by_subdomain, [item.subdomain_id]) == {
        item.subdomain_id: {SHOP: (True, False)}
    }


def test_a_publication_is_recorded_while_its_user_is_locked(registry: Registry, engine: Engine) -> None:
    """PostgreSQL locks the user of a row that the same transaction has changed before, to check the foreign
    key.
    """
    domain_id = registry.domains[ZONE]
    registry.register(SHOP, nameservers=("ns1.example.org",))
    batch = registry.write(begin_publication, domain_id)
    assert batch is not None
    (item,) = batch.items

    def record() -> None:
        with engine.begin() as connection:
            tx = Tx(connection, registry.now)
            store.update_subdomain(tx, item.subdomain_id, attempts=1)
            record_publication(tx, {item.subdomain_id: Result(item, serial=7)}, batch)

    with ThreadPoolExecutor(1) as threads, engine.begin() as connection:
        account_store.lock_user(Tx(connection, registry.now), registry.users["ann"])
        threads.submit(record).result(60)
    assert registry.subdomain(item.subdomain_id).published_generation == 1


def test_the_sweep_and_a_publication_do_not_deadlock(registry: Registry, engine: Engine) -> None:
    """The sweep processes the longest due names first, the publisher names by their ids.

    Both lock all names before that.
    """
    domain_id = registry.domains[ZONE]
    held = [
        registry.register(f"name{number}.{ZONE}", nameservers=("ns1.example.org",)) for number in range(2)
    ]
    batch = registry.write(begin_publication, domain_id)
    assert batch is not None
    due = [registry.now - timedelta(seconds=number) for number in (1, 2)]  # the later name is processed first
    for each, due_at in zip(held, due, strict=True):
        registry.write(store.set_dates, each.id, due_at=due_at, loss_at=None)
    interleave(
        registry,
        engine,
        lambda tx: store.lock_subdomains(tx, [held[0].id]),
        sweep,
        lambda tx: record_publication(
            tx, {item.subdomain_id: Result(item, serial=7) for item in batch.items}, batch
        ),
    )
    assert [registry.subdomain(each.id).published_generation for each in held] == [1, 1]


@pytest.mark.parametrize("verb", ["change", "registration"])
def test_a_nameserver_below_a_name_being_purged_is_refused(
    registry: Registry, engine: Engine, verb: str
) -> None:
    """The purge waits for the transaction that adds the nameserver, and then sees the nameserver; or the
    reverse.
    """
    registry.register(SHOP, "ben", nameservers=("ns1.example.org",))
    registry.publish(ZONE)
    registry.write(delete, registry.actor("ben"), SHOP)
    registry.sweep()
    registry.publish(ZONE)
    host = f"ns1.{SHOP}"
    ada = f"ada.{ZONE}"
    if verb == "change":
        registry.register(ada)

    def add(tx: Tx) -> None:
        if verb == "change":
            update_nameservers(tx, registry.actor(), ada, UpdateNameservers(nameservers=(host,)))
        else:
            register(tx, registry.actor(), Register(fqdn=ada, nameservers=(host,)), free_quota=9)

    def release(tx: Tx) -> None:
        with pytest.raises(Conflict, match="other names have nameservers below it"):
            purge(tx, OPERATOR, SHOP, release=True)

    interleave(registry, engine, add, release, lambda _: None)
    registry.write(delete, registry.actor(), ada)


def test_two_transfers_of_a_name_are_serialized(registry: Registry, engine: Engine) -> None:
    registry.add_user("carl")
    held = registry.register(SHOP)
    interleave(
        registry,
        engine,
        lambda tx: transfer(tx, OPERATOR, SHOP, "ben@example.org"),
        lambda tx: transfer(tx, OPERATOR, SHOP, "carl@example.org"),
        lambda tx: account_store.lock_users(tx, [registry.users["ben"]]),
    )
    assert registry.subdomain(held.id).user_id == registry.users["carl"]
    assert registry.doctor() == []


@dataclass(frozen=True)
class Coop:
    """An organization: `ann` and `ben` own it, and `cleo` has an invitation from `ann` as an owner."""

    id: int
    code: str


@pytest.fixture
def coop(registry: Registry) -> Coop:
    registry.add_user("cleo")
    organization_id = share(registry, ben="owner")
    registry.write(invite_member, registry.actor(), str(organization_id), "cleo@example.org", "owner", URL)
    return Coop(organization_id, mailed_code(registry, "cleo@example.org"))


def _delete(registry: Registry, name: str) -> Callable[[Tx], object]:
    return lambda tx: delete_own_user(tx, registry.actor(name), f"{name}@example.org")


def _delete_coop(registry: Registry, coop: Coop) -> Callable[[Tx], object]:
    found = registry.read(lambda tx: account_store.find_organization(tx, coop.id))
    assert found is not None
    return lambda tx: delete_organization(tx, registry.actor(), str(coop.id), found.slug)


def _raises(error: type[Exception], verb: Callable[[Tx], object]) -> Callable[[Tx], object]:
    def run(tx: Tx) -> None:
        with pytest.raises(error):
            verb(tx)

    return run


def test_the_last_two_members_do_not_both_delete_themselves(
    registry: Registry, engine: Engine, coop: Coop
) -> None:
    """The second deletion sees that its user is the last member, and that the organization has credits."""
    registry.write(grant_credits, OPERATOR, f"organization:{coop.id}", 5, "test")
    interleave(registry, engine, _delete(registry, "ann"), _raises(Conflict, _delete(registry, "ben")))
    assert role_of(registry, coop.id, "ben") == "owner"
    assert registry.doctor() == []


@pytest.mark.uncovered
@pytest.mark.parametrize("is_deleted_first", [True, False])
def test_an_invitee_never_joins_an_erased_organization(
    registry: Registry, engine: Engine, coop: Coop, *, is_deleted_first: bool
) -> None:
    """The owner who sent the invitation deletes the account while the invitee accepts it."""
    registry.write(remove_member, registry.actor(), str(coop.id), str(registry.users["ben"]))
    accepted: list[object] = []

    def join(tx: Tx) -> None:
        accepted.append(accept_invitation(tx, STRANGER, coop.code, opens_accounts=True))

    if is_deleted_first:
        interleave(registry, engine, _delete(registry, "ann"), join)
        assert accepted == [None]
    else:
        interleave(registry, engine, join, _delete(registry, "ann"))
        assert role_of(registry, coop.id, "cleo") == "owner"
    assert registry.doctor() == []


def test_an_operators_invitation_is_used_or_its_organization_erased(
    registry: Registry, engine: Engine
) -> None:
    email, organization_id = "eve@example.org", registry.organizations["ann"]
    registry.write(invite, OPERATOR, email, "Eve", URL, organization=str(organization_id))
    confirm = partial(confirm_sign_up, actor=STRANGER, email=email, code=newest_code(registry, email))
    interleave(registry, engine, _delete(registry, "ann"), confirm)
    assert registry.read(account_store.find_user_by_email, email) is None
    assert registry.doctor() == []


def test_a_deleted_invitee_does_not_join(registry: Registry, engine: Engine, coop: Coop) -> None:
    accept = partial(accept_invitation, actor=STRANGER, code=coop.code, opens_accounts=False)
    interleave(registry, engine, _delete(registry, "cleo"), _raises(Outdated, accept))
    assert registry.write(accept) is None, "the deletion deleted the code"
    assert registry.doctor() == []


def test_an_invitee_does_not_join_a_deleted_organization(
    registry: Registry, engine: Engine, coop: Coop
) -> None:
    accepted: list[object] = []

    def join(tx: Tx) -> None:
        accepted.append(accept_invitation(tx, STRANGER, coop.code, opens_accounts=True))

    interleave(registry, engine, _delete_coop(registry, coop), join)
    assert accepted == [None]
    assert registry.doctor() == []


def test_the_operator_adds_no_member_to_a_deleted_organization(
    registry: Registry, engine: Engine, coop: Coop
) -> None:
    def add(tx: Tx) -> object:
        return set_role_as_operator(tx, OPERATOR, str(coop.id), "cleo@example.org", "member")

    interleave(registry, engine, _delete_coop(registry, coop), _raises(NotFound, add))


def test_no_token_outlives_a_deleted_organization(registry: Registry, engine: Engine, coop: Coop) -> None:
    ben = session_actor(sign_in(registry, "ben"))
    wanted = {"scopes": ("subdomains:read",)}

    def issue(tx: Tx) -> object:
        return create_token(tx, ben, "ci", wanted, organization_id=coop.id)

    interleave(registry, engine, _delete_coop(registry, coop), _raises(ValidationFailed, issue))
    assert registry.doctor() == []


def test_the_owner_who_is_left_does_not_delete_the_account(
    registry: Registry, engine: Engine, coop: Coop
) -> None:
    """The second transaction sees that its user is the only owner, and that the organization has another
    member.
    """
    registry.write(set_role_as_operator, OPERATOR, str(coop.id), "cleo@example.org", "member")

    def leave(tx: Tx) -> object:
        return remove_member(tx, registry.actor("ben"), str(coop.id), str(registry.users["ben"]))

    interleave(registry, engine, leave, _raises(Conflict, _delete(registry, "ann")))
    assert role_of(registry, coop.id, "ann") == "owner"
    assert registry.doctor() == []


@pytest.mark.parametrize("way", ["code", "accept", "decline"])
def test_an_invitation_is_answered_or_revoked(
    registry: Registry, engine: Engine, coop: Coop, way: str
) -> None:
    """Both lock the organization, then the code."""
    (open_one,) = registry.read(list_open_invitations, coop.id)

    def accept(tx: Tx) -> None:
        if way == "code":
            assert accept_invitation(tx, STRANGER, coop.code, opens_accounts=True) is None
            return
        answer = accept_received_invitation if way == "accept" else decline_invitation
        with pytest.raises(OrganizationNotFound):
            answer(tx, registry.actor("cleo"), str(open_one.id))

    interleave(
        registry,
        engine,
        lambda tx: lock_as_owner(tx, registry.actor(), str(coop.id)),
        accept,
        lambda tx: revoke_invitation(tx, registry.actor(), str(coop.id), str(open_one.id)),
    )


def test_a_rename_and_a_change_of_members_do_not_deadlock(
    registry: Registry, engine: Engine, coop: Coop
) -> None:
    """Both lock the account and `dan` by their ids. The account has the lower one."""
    registry.add_user("dan")
    registry.write(set_role_as_operator, OPERATOR, str(coop.id), "dan@example.org", "owner")
    account_id = account(registry, coop.id)
    assert account_id < registry.users["dan"]
    interleave(
        registry,
        engine,
        lambda tx: account_store.lock_user(tx, account_id),
        lambda tx: rename_organization(tx, registry.actor("dan"), str(coop.id), "Renamed"),
        lambda tx: account_store.lock_user(tx, registry.users["dan"]),
    )


def test_two_members_of_an_own_organization_leave_it_an_owner(registry: Registry, engine: Engine) -> None:
    """An own organization has no account to lock.

    The next owner must not be the user who is deleted meanwhile.
    """
    for name in ("cleo", "dan"):
        member = registry.write(add_user, OPERATOR, f"{name}@example.org", name, "ben@example.org")
        registry.users[name] = member.user.id
    interleave(registry, engine, _delete(registry, "ben"), _delete(registry, "cleo"))
    assert registry.doctor() == []


def test_a_sign_in_with_a_passkey_and_its_removal_do_not_deadlock(registry: Registry, engine: Engine) -> None:
    """All verbs lock the user, then the passkey."""
    done = sign_in(registry)
    authenticator = new_passkey(registry, done)
    credential = authenticator.get(options(registry))
    (passkey,) = registry.read(list_passkeys, registry.users["ann"])

    def use(tx: Tx) -> None:
        assert identify_by_passkey(tx, credential, SITE) is None, "it was removed"

    interleave(
        registry,
        engine,
        lambda tx: account_store.lock_user(tx, registry.users["ann"]),
        use,
        lambda tx: remove_passkey(tx, session_actor(done), str(passkey.id), URL),
    )


def test_a_code_is_used_or_deleted_with_its_user(registry: Registry, engine: Engine) -> None:
    """All verbs lock the user, then the code."""
    registry.write(request_code, "ann@example.org", "", URL)
    code = newest_code(registry, "ann@example.org")

    def use(tx: Tx) -> None:
        assert identify_by_code(tx, email="ann@example.org", code=code) is None

    interleave(
        registry,
        engine,
        lambda tx: account_store.lock_user(tx, registry.users["ann"]),
        use,
        lambda tx: delete_user(tx, OPERATOR, "ann@example.org", trash_names=True, confirmed=True),
    )
    assert registry.doctor() == []


def test_sign_ins_and_sign_ups_of_different_mailboxes_do_not_wait_for_each_other(
    registry: Registry,
    engine: Engine,
) -> None:
    with ThreadPoolExecutor(1) as threads, engine.begin() as connection:
        held = Tx(connection, registry.now)
        sign_up(held, SignUp("eve@example.org", "Eve", "192.0.2.0/24"), URL)
        request_code(held, "ann@example.org", "192.0.2.0/24", URL)

        def beside() -> None:
            with engine.begin() as other:
                tx = Tx(other, registry.now)
                request_code(tx, "ben@example.org", "198.51.100.0/24", URL)
                sign_up(tx, SignUp("fay@example.org", "Fay", "198.51.100.0/24"), URL)
                start_device(tx, "ci", "198.51.100.1", "198.51.100.0/24")

        threads.submit(beside).result(60)


@pytest.mark.parametrize("spelling", ["eve@example.org", "EVE@example.org."])
def test_requests_for_one_mailbox_are_counted_one_after_the_other(
    registry: Registry, engine: Engine, spelling: str
) -> None:
    interleave(
        registry,
        engine,
        lambda tx: sign_up(tx, SignUp("eve@example.org", "Eve"), URL),
        lambda tx: sign_up(tx, SignUp(spelling, "Eve"), URL),
    )
    assert len(texts_to(registry, "eve@example.org")) == 1


def test_requests_of_one_network_are_counted_one_after_the_other(registry: Registry, engine: Engine) -> None:
    network = "192.0.2.0/24"
    interleave(
        registry,
        engine,
        lambda tx: request_code(tx, "ann@example.org", network, URL),
        lambda tx: request_code(tx, "ben@example.org", network, URL),
    )


def test_a_value_that_another_transaction_stores_first_is_seen_by_the_next_run(
    registry: Registry,
    engine: Engine,
) -> None:
    """The unique constraint ends the first run. The second run finds the user, and gives the answer."""
    runs: list[int] = []

    def add(tx: Tx) -> None:
        runs.append(1)
        add_user(tx, OPERATOR, "eve@example.org", "Eve", "ann@example.org")

    def store_first() -> None:
        with engine.begin() as connection, engine.connect() as watching:
            account_store.insert_user(Tx(connection, registry.now), "eve@example.org", "Eve", 2, None)
            inserted.set()
            wait_until(lambda: count_blocked(Tx(watching, registry.now)) == 1)

    inserted = Event()
    with ThreadPoolExecutor(1) as threads:
        first = threads.submit(store_first)
        assert inserted.wait(60)
        with pytest.raises(Conflict, match="There is a user"):
            registry.write(add)
        first.result(60)
    assert len(runs) == 2


def test_a_concurrent_purge_is_seen_before_the_nameserver_is_stored(
    registry: Registry, engine: Engine
) -> None:
    registry.register(SHOP, "ben", nameservers=("ns1.example.org",))
    registry.register(f"ada.{ZONE}")
    registry.write(delete, registry.actor("ben"), SHOP)

    def add(tx: Tx) -> None:
        with pytest.raises(ValidationFailed):
            update_nameservers(
                tx, registry.actor(), f"ada.{ZONE}", UpdateNameservers(nameservers=(f"ns1.{SHOP}",))
            )

    interleave(registry, engine, lambda tx: purge(tx, OPERATOR, SHOP), add, lambda _: None)
