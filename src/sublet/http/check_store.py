"""The SQL of the HTTP edge's invariant: what is remembered under an `Idempotency-Key`."""

from collections.abc import Iterator

from sqlalchemy import exists, select

from sublet.accounts.store import users
from sublet.db import Tx
from sublet.http.store import idempotency_keys
from sublet.invariants import Violation
from sublet.subdomains.store import subdomains
from sublet.tickets.store import tickets


def list_foreign_outcomes(tx: Tx) -> Iterator[Violation]:
    """Which keys remember an outcome that is no subdomain and no ticket of their user, nor the user itself, or none at all?

    Which of them it is is not stored, so it is enough that one is the user's.
    """
    keys = idempotency_keys.c
    outcome_id = keys.outcome["id"].as_integer()
    own = (
        exists().where((table.c.id == outcome_id) & (table.c.user_id == keys.user_id))
        for table in (subdomains, tickets)
    )
    of_somebody = exists().where(users.c.id == keys.user_id)
    subdomain, ticket = own
    query = select(keys.user_id, keys.key).where(
        keys.outcome.is_(None) | ~of_somebody | ~(subdomain | ticket | (outcome_id == keys.user_id))
    )
    for user_id, key in tx.connection.execute(query):
        sentence = f"what is remembered under the key {key} is not its user's"
        yield Violation("rows_belong_together", "user", user_id, sentence)
