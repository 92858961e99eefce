"""All SQL of replaying names' lives: their rows, events and terms, each streamed in the order of the subdomains' ids."""

from collections.abc import Iterator

from sqlalchemy import select

from sublet.audit import audit_events
from sublet.db import Tx
from sublet.schema import STREAMED
from sublet.subdomains.replay import NOTHING, Event, Facts, PastTerm
from sublet.subdomains.store import subdomains, terms

_PUBLISHER = ("subdomain.publish", "subdomain.publish_failed", "subdomain.hand_over")
"""What the publisher tells changes nothing in a life, and is most of the audit."""
_FACTS = tuple(name for name in Facts.__slots__ if name != "delegation")
_TERM = tuple(PastTerm.__slots__)


def stream_facts(tx: Tx) -> Iterator[tuple[int, Facts]]:
    """What does each row say of its life? By id."""
    columns = [subdomains.c[name] for name in ("id", *_FACTS, *NOTHING)]
    query = select(*columns).order_by(subdomains.c.id).execution_options(**STREAMED)
    for row in tx.connection.execute(query).mappings():
        values = {name: row[name] for name in _FACTS}
        yield row["id"], Facts(delegation={name: row[name] for name in NOTHING}, **values)


def stream_events(tx: Tx) -> Iterator[tuple[int, Event]]:
    """What was done to each subdomain? By id, then oldest first."""
    events = audit_events.c
    query = (
        select(
            events.object_id,
            events.id,
            events.at,
            events.actor_kind,
            events.action,
            events.before,
            events.after,
        )
        .where((events.object_type == "subdomain") & events.action.not_in(_PUBLISHER))
        .order_by(events.object_id, events.id)
        .execution_options(**STREAMED)
    )
    for subdomain_id, event_id, at, actor_kind, action, before, after in tx.connection.execute(query):
        verb = action.removeprefix("subdomain.")
        yield subdomain_id, Event(event_id, at, actor_kind, verb, before or {}, after or {})


def stream_terms(tx: Tx) -> Iterator[tuple[int, PastTerm]]:
    """Which terms does each subdomain have? By id, then oldest first."""
    query = (
        select(terms.c.subdomain_id, *(terms.c[name] for name in _TERM))
        .order_by(terms.c.subdomain_id, terms.c.id)
        .execution_options(**STREAMED)
    )
    for subdomain_id, *values in tx.connection.execute(query):
        yield subdomain_id, PastTerm(*values)
