"""The names that a check compares on the secondaries: those with the newest changes, and then all in turn; on
both databases.
"""

from datetime import datetime

from sublet.primaries.store import list_changes_after, list_newest_changes
from sublet.subdomains.delete import delete
from support.registry import Registry

DOMAIN = "example.test"


def test_all_names_are_compared_in_turn_and_the_newest_changes_first(registry: Registry) -> None:
    registry.move()
    of = registry.domains[DOMAIN]
    ids = []
    for number in range(7):
        ids.append(registry.register_by_operator(f"n{number}.{DOMAIN}", nameservers=("ns.example.net",)).id)
        if number not in (2, 3, 4):  # these names have the same instant
            registry.advance(seconds=1)
    registry.register_by_operator(f"empty.{DOMAIN}")
    registry.publish()
    registry.write(delete, registry.actor(), f"n1.{DOMAIN}")
    found: list[int] = []
    after: tuple[datetime, int] | None = None
    while some := registry.read(list_changes_after, of, after, 2):
        found += [each.id for each in some]
        after = some[-1].generation_at, some[-1].id
    assert found == [*(each for each in ids if each != ids[1]), ids[1]]
    newest = registry.read(list_newest_changes, of, 3)
    assert [each.id for each in newest] == [ids[1], ids[6], ids[5]]
