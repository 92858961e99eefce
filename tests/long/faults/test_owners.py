"""No name, credit or organization loses its owner when two members act at once.

`make soak ONLY='owners/*'` runs 50 rounds of each pair.
"""

import pytest

from long.faults.owners import PAIRS, check_pairs
from support.postgresql import fresh_database
from support.registry import Prepared, open_registry

ROUNDS = 2


@pytest.mark.whole
def test_everything_keeps_an_owner_when_two_members_act_at_once(
    postgresql_server: str, postgresql_registry: Prepared
) -> None:
    with (
        fresh_database(postgresql_server, like=postgresql_registry.url) as url,
        open_registry(url, postgresql_registry) as registry,
    ):
        outcomes = check_pairs(registry, ROUNDS)
    assert outcomes.total() == len(PAIRS) * ROUNDS
    assert outcomes["2 of 2"] > 0
    assert outcomes["1 of 2"] > 0
