"""Replay the life of every name: what `sublet doctor` asks of rows, events and terms together."""

from collections.abc import Iterator
from typing import Generic, TypeVar

from sublet.db import Tx
from sublet.invariants import Violation
from sublet.subdomains import check_life_store
from sublet.subdomains.replay import Event, replay

T = TypeVar("T")


def check_lives(tx: Tx) -> Iterator[Violation]:
    """Yield what is wrong with the life of each name, one name after the other: nothing is held in memory but one."""
    events = Beside(check_life_store.stream_events(tx))
    terms = Beside(check_life_store.stream_terms(tx))
    for subdomain_id, facts in check_life_store.stream_facts(tx):
        for fault in replay(events.take(subdomain_id), terms.take(subdomain_id), facts):
            yield Violation(fault.invariant, "subdomain", subdomain_id, fault.message)
        yield from _gone(events)
    events.take(None)
    terms.take(None)
    yield from _gone(events)


def _gone(events: "Beside[Event]") -> Iterator[Violation]:
    for subdomain_id in events.passed_over:
        yield Violation("rows_stay", "subdomain", subdomain_id, "the audit tells of it, and it is not there")
    events.passed_over.clear()


class Beside(Generic[T]):
    """A stream ordered by subdomain, walked beside the subdomains; `passed_over` are ids that had no subdomain."""

    def __init__(self, rows: Iterator[tuple[int, T]]) -> None:
        self._rows = rows
        self._next = next(rows, None)
        self.passed_over: list[int] = []

    def take(self, subdomain_id: int | None) -> list[T]:
        """Return what belongs to the next subdomain; with None walk to the end."""
        taken: list[T] = []
        while self._next is not None and (subdomain_id is None or self._next[0] <= subdomain_id):
            owner_id, item = self._next
            if owner_id == subdomain_id:
                taken.append(item)
            elif self.passed_over[-1:] != [owner_id]:
                self.passed_over.append(owner_id)
            self._next = next(self._rows, None)
        return taken
