"""What is asked at each registration, and several times a second, reads no whole table on PostgreSQL, however many names there are."""

from collections.abc import Callable, Iterator

import pytest
from sqlalchemy import text

from postgresql import fresh_database
from registry import Prepared, Registry, open_registry
from sublet.db import Tx
from sublet.subdomains import publish_store, store, sweep_store

ZONE = "example.test"
COPIES = 20_000
_COPIED = """
INSERT INTO subdomains ({columns}, label, fqdn)
SELECT {columns}, 'copy' || number, 'copy' || number || '.example.test'
FROM subdomains, generate_series(1, :copies) AS numbers (number)
"""
_READ = "SELECT seq_tup_read FROM pg_stat_xact_user_tables WHERE relname = 'subdomains'"

QUESTIONS: dict[str, Callable[[Tx, int], object]] = {
    "which zones have names that wait": lambda tx, _: publish_store.list_waiting_platform_domain_ids(tx),
    "which names of a zone wait": lambda tx, of: publish_store.list_waiting(tx, of, 100),
    "does a row of this name wait": lambda tx, of: publish_store.is_waiting(tx, of, f"copy7.{ZONE}"),
    "who holds this name": lambda tx, _: store.find_unreleased(tx, f"copy7.{ZONE}"),
    "how many free names has somebody else": lambda tx, _: store.count_free(tx, 2),
    "what is the sweep to look at": lambda tx, _: sweep_store.list_due(tx, 25),
    "what do dates take": lambda tx, _: sweep_store.list_losses(tx, 25),
}


@pytest.fixture(scope="module")
def many_names(postgresql_server: str, postgresql_registry: Prepared) -> Iterator[Registry]:
    """A registry on PostgreSQL, which chooses by its estimates, with many names that are at rest."""
    columns = [each.name for each in store.subdomains.columns if each.name not in ("id", "label", "fqdn")]

    def copy(tx: Tx) -> None:
        tx.connection.execute(text("UPDATE subdomains SET due_at = NULL, loss_at = NULL"))
        tx.connection.execute(text(_COPIED.format(columns=", ".join(columns))), {"copies": COPIES})
        tx.connection.execute(text("ANALYZE subdomains"))

    with (
        fresh_database(postgresql_server, like=postgresql_registry.url) as url,
        open_registry(url, postgresql_registry) as registry,
    ):
        registry.register(f"first.{ZONE}", nameservers=("ns1.example.org",))
        registry.publish()
        registry.write(copy)
        yield registry


@pytest.mark.parametrize("question", QUESTIONS)
def test_no_question_reads_all_names(many_names: Registry, question: str) -> None:
    def ask(tx: Tx) -> int:
        before = tx.connection.execute(text(_READ)).scalar_one()
        QUESTIONS[question](tx, many_names.domains[ZONE])
        return int(tx.connection.execute(text(_READ)).scalar_one() - before)

    assert many_names.read(ask) == 0
