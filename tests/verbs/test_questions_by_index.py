"""Frequent queries read few rows, even if the registry, or a single user, has many names."""

import shutil
from collections.abc import Callable, Iterator
from contextlib import contextmanager

import pytest
from sqlalchemy import Table, text

from sublet.accounts import store as account_store
from sublet.accounts.tokens.issue import issue_token
from sublet.audit import (
    ActivityFilter,
    Actor,
    EventFilter,
    audit_events,
    has_old_addresses,
    list_activity,
    search_events,
)
from sublet.db import Tx
from sublet.mail import store as mail_store
from sublet.mail.letter import Message
from sublet.mail.outbox import enqueue_to
from sublet.platform_domains import store as platform_domain_store
from sublet.platform_domains.model import PlatformDomain
from sublet.platform_domains.store import find_platform_domain
from sublet.primaries import store as publish_store
from sublet.subdomains import delegation_store, store
from sublet.subdomains.list_store import list_own
from sublet.subdomains.model import SubdomainFilter
from sublet.subdomains.sweep import store as sweep_store
from sublet.subdomains.sweep.plausible_clock import find_implausible_clock_reason
from sublet.subdomains.transfers.store import list_overdue, list_pending
from support.databases import driver_of
from support.postgresql import fresh_database
from support.registry import OPERATOR, Prepared, Registry, open_registry

ZONE = "example.test"
COPIES = 20_000
ROWS_MAX = 60
STEPS_MAX = 3_000
"""The maximum number of steps of SQLite's virtual machine, which takes at least five steps for a row."""
_NUMBERS = (
    "WITH RECURSIVE numbers(number) AS (SELECT 1 UNION ALL SELECT number + 1 FROM numbers WHERE number < "
    ":copies) "
)
_READ = (
    "SELECT sum(seq_tup_read + coalesce(idx_tup_fetch, 0)) FROM pg_stat_xact_user_tables "
    "WHERE relname IN ('subdomains', 'platform_domains', 'audit_events', 'mails')"
)


def _platform_domain(tx: Tx, of: int) -> PlatformDomain:
    found = find_platform_domain(tx, of)
    assert found is not None
    return found


QUESTIONS: dict[str, Callable[[Tx, int], object]] = {
    "whose token is this": lambda tx, _: account_store.REGISTRANT_BY_DIGEST.run(tx, token_digest="former7"),
    "whose token was this": lambda tx, _: account_store.REGISTRANT_BY_FORMER_DIGEST.run(
        tx, token_digest="former7", at=tx.now
    ),
    "which of a user's names is this": lambda tx, _: store.OWN_BY_NAME.run(
        tx, owner_id=1, name=f"copy7.{ZONE}"
    ),
    "which of a user's names is this, for a verb": lambda tx, _: store.find_subdomain_of_user(
        tx, 1, subdomain_id=None, fqdn=f"copy7.{ZONE}"
    ),
    "which are a user's newest": lambda tx, _: list_own(
        tx, Actor("user", user_id=1), SubdomainFilter(), 26, None
    ),
    "is a platform domain at a name, or below it": lambda tx, _: (
        platform_domain_store.has_platform_domain_at_or_below(tx, f"copy7.{ZONE}")
    ),
    "what stands next to a platform domain": lambda tx, _: platform_domain_store.next_owner_keys(
        tx, "zone7.test"
    ),
    "which zones have names that wait": lambda tx, _: publish_store.list_waiting_platform_domain_ids(tx),
    "which names of a zone wait": lambda tx, of: publish_store.list_waiting(tx, of, 100),
    "is this name free": lambda tx, of: delegation_store.find_standing(
        tx, _platform_domain(tx, of), f"fresh.{ZONE}", 2, is_locking=False
    ),
    "what are the rules for this label": lambda tx, of: platform_domain_store.find_label_rules(
        tx, of, "fresh"
    ),
    "do names depend on this name": lambda tx, _: delegation_store.list_dependents(tx, f"copy7.{ZONE}", 25),
    "does anything else of a zone wait": lambda tx, of: publish_store.is_any_waiting(tx, of, [1, 2]),
    "does a row of this name wait": lambda tx, of: store.has_unpublished_row(tx, of, f"copy7.{ZONE}"),
    "who holds this name": lambda tx, _: store.find_unreleased(tx, f"copy7.{ZONE}"),
    "does another user hold a look-alike": lambda tx, of: store.is_look_alike_held(
        tx, _platform_domain(tx, of), "copy7", 2
    ),
    "how many free names has somebody else": lambda tx, _: store.count_free(tx, 2),
    "what is the sweep to look at": lambda tx, _: sweep_store.list_due(tx, 25),
    "may the clock date a name, before the first sweep": lambda tx, _: find_implausible_clock_reason(tx),
    "what did a user do": lambda tx, _: search_events(tx, EventFilter(user_id=2), 25),
    "what happened in an account": lambda tx, _: list_activity(tx, 3, ActivityFilter(), 25),
    "what happened in an account before that": lambda tx, _: list_activity(
        tx, 3, ActivityFilter(), 25, 90_000
    ),
    "is an address too old": lambda tx, _: has_old_addresses(tx),
    "is a name offered": lambda tx, _: list_pending(tx, [7]),
    "has a transfer expired": lambda tx, _: list_overdue(tx, 1),
    "what happened to a name": lambda tx, _: search_events(
        tx, EventFilter(objects=[("subdomain", 99)], action="subdomain.renew"), 25
    ),
    "which rows had a name": lambda tx, _: store.list_ids_of_name(tx, f"copy7.{ZONE}"),
    "which mail is next": lambda tx, _: mail_store.lock_due(tx),
    "has the code of a mail expired": lambda tx, _: mail_store.has_expired_code(tx),
    "what do dates take": lambda tx, _: sweep_store.list_losses(tx, 25),
}


def _copy(tx: Tx) -> None:
    _copy_rows(tx, store.subdomains, label="'copy' || number", fqdn="'copy' || number || '.example.test'")
    _copy_rows(
        tx,
        platform_domain_store.platform_domains,
        domain="'zone' || number || '.test'",
        owner_key="'test.zone' || number",
    )

    _copy_rows(tx, audit_events)
    _copy_rows(tx, account_store.tokens, digest="'copy' || number", former_digest="'former' || number")
    _copy_rows(tx, mail_store.mails, reference="'copy' || number")


def _copy_rows(tx: Tx, table: Table, **other: str) -> None:
    columns = [f'"{each.name}"' for each in table.columns if each.name not in ("id", *other)]
    into = ", ".join([*columns, *other])
    of = ", ".join([*columns, *other.values()])
    tx.connection.execute(
        text(f"{_NUMBERS} INSERT INTO {table.name} ({into}) SELECT {of} FROM {table.name}, numbers")  # noqa: S608 - ours
        if tx.connection.dialect.name == "postgresql"
        else text(f"INSERT INTO {table.name} ({into}) {_NUMBERS} SELECT {of} FROM {table.name}, numbers"),  # noqa: S608 - ours
        {"copies": COPIES},
    )
    tx.connection.execute(text(f"ANALYZE {table.name}"))


@pytest.fixture(scope="module", params=["sqlite", "postgresql"])
def many_names(
    request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[Registry]:
    """Yield a registry with many names of a single user, none of them due, and equally
    many platform domains and due mails.
    """
    prepared: Prepared = request.getfixturevalue(f"{request.param}_registry")
    if request.param == "sqlite":
        path = tmp_path_factory.mktemp("many") / "registry.db"
        shutil.copy(prepared.url.removeprefix("sqlite:///"), path)
        with _filled(f"sqlite:///{path}", prepared) as registry:
            yield registry
        return
    with (
        fresh_database(request.getfixturevalue("postgresql_server"), like=prepared.url) as url,
        _filled(url, prepared) as registry,
    ):
        yield registry


@contextmanager
def _filled(url: str, prepared: Prepared) -> Iterator[Registry]:
    with open_registry(url, prepared) as registry:
        registry.register(f"first.{ZONE}", nameservers=("ns1.example.org",))
        registry.publish()
        registry.write(issue_token, OPERATOR, "ann@example.org", "laptop")
        registry.write(
            lambda tx: tx.connection.execute(text("UPDATE subdomains SET due_at = NULL, loss_at = NULL"))
        )
        registry.write(enqueue_to, "ann@example.org", Message("S", "T"), reference="first")
        registry.write(_copy)
        yield registry


@pytest.mark.uncovered
@pytest.mark.parametrize("question", QUESTIONS)
def test_a_query_reads_few_rows(many_names: Registry, question: str) -> None:
    def ask(tx: Tx) -> object:
        return QUESTIONS[question](tx, many_names.domains[ZONE])

    effort, most = many_names.write(_effort, ask)
    assert effort <= most


def _effort(tx: Tx, ask: Callable[[Tx], object]) -> tuple[int, int]:
    """Return the cost of a query and its limit: rows on PostgreSQL, steps on SQLite, which doesn't count
    rows.
    """
    if tx.connection.dialect.name == "postgresql":
        return _rows(tx, ask), ROWS_MAX
    return _steps(tx, ask), STEPS_MAX


def _rows(tx: Tx, ask: Callable[[Tx], object]) -> int:
    before = tx.connection.execute(text(_READ)).scalar_one()
    ask(tx)
    return int(tx.connection.execute(text(_READ)).scalar_one() - before)


def _steps(tx: Tx, ask: Callable[[Tx], object]) -> int:
    counted = 0

    def count() -> int:
        nonlocal counted
        counted += 100
        return 0

    driver_of(tx).set_progress_handler(count, 100)
    try:
        ask(tx)
    finally:
        driver_of(tx).set_progress_handler(None, 0)
    return counted
