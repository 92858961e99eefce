"""PostgreSQL: run a transaction beside one that a test holds open, and see that it waits."""

from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor

from sqlalchemy import Engine, text

from sublet.db import Tx
from support.registry import Registry
from support.waiting import wait_until

BLOCKED = (
    "SELECT count(*) FROM pg_stat_activity WHERE datname = current_database() AND wait_event_type = 'Lock'"
)


def count_blocked(tx: Tx) -> int:
    """Return the number of transactions that wait for a lock."""
    return int(tx.connection.execute(text(BLOCKED)).scalar_one())


def do_nothing(_: Tx) -> None:
    """End the transaction."""


def interleave(
    registry: Registry,
    engine: Engine,
    first: Callable[[Tx], object],
    beside: Callable[[Tx], object],
    then: Callable[[Tx], object] = do_nothing,
) -> None:
    """Run `first` and `then` in one transaction.

    Between them `beside` begins in another one and waits. Neither is retried.
    """

    def run() -> None:
        with engine.begin() as connection:
            beside(Tx(connection, registry.now))

    with ThreadPoolExecutor(1) as threads:
        with engine.begin() as connection:
            tx = Tx(connection, registry.now)
            first(tx)
            waiting = threads.submit(run)
            wait_until(lambda: waiting.done() or registry.read(count_blocked) == 1)
            assert not waiting.done(), waiting.exception() or "nothing keeps it"
            then(tx)
        waiting.result(60)
