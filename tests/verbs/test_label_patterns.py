"""Patterns of labels that nobody may register: what they refuse, what they leave, what the operator sees."""

import pytest

from sublet.db import Tx
from sublet.errors import Conflict, NotFound, SubdomainUnavailable, ValidationFailed
from sublet.platform_domains import pattern_store
from sublet.platform_domains.block_labels import block_labels
from sublet.platform_domains.label_patterns import PATTERNS_MAX
from sublet.platform_domains.set_label import set_label
from sublet.platform_domains.unblock_labels import unblock_labels
from sublet.subdomains.matching_names import list_matching
from support.registry import OPERATOR, Registry

ZONE, OTHER = "example.test", "other.test"
BANK = f"my-bank-login.{ZONE}"


def test_nobody_can_register_what_is_blocked(registry: Registry) -> None:
    registry.write(block_labels, OPERATOR, "*bank*")
    with registry.refuses(SubdomainUnavailable) as caught:
        registry.register(BANK)
    assert caught[0].details == {"reason": "reserved", "owned": False}
    assert "*" not in caught[0].message
    registry.register(f"blog.{ZONE}")
    registry.write(unblock_labels, OPERATOR, "*BANK*")
    registry.register(BANK)
    assert registry.doctor() == []


def test_a_pattern_of_one_platform_domain_says_nothing_of_another(registry: Registry) -> None:
    registry.add_domain(OTHER)
    registry.write(block_labels, OPERATOR, "*bank*", OTHER)
    registry.register(BANK)
    with registry.refuses(SubdomainUnavailable):
        registry.register(f"my-bank-login.{OTHER}")


def test_a_label_that_is_listed_is_what_it_is_listed_as(registry: Registry) -> None:
    registry.write(block_labels, OPERATOR, "*bank*")
    registry.write(set_label, OPERATOR, ZONE, "riverbank", "standard")
    registry.register(f"riverbank.{ZONE}")


def test_names_that_are_held_stay_and_are_listed(registry: Registry) -> None:
    registry.register(BANK)
    registry.register(f"blog.{ZONE}")
    registry.write(block_labels, OPERATOR, "*bank*")
    (found,) = registry.read(list_matching)
    assert (found.fqdn, found.email, found.patterns) == (BANK, "ann@example.org", ("*bank*",))
    assert registry.read(list_matching, ("bl?g",))[0].fqdn == f"blog.{ZONE}"
    registry.add_domain(OTHER)
    assert registry.read(list_matching, None, OTHER) == []
    with pytest.raises(NotFound):
        registry.read(list_matching, None, "nowhere.test")


def test_refusals_of_the_operators_commands(registry: Registry) -> None:
    registry.write(block_labels, OPERATOR, "*bank*")
    registry.write(block_labels, OPERATOR, "*bank*", ZONE)
    for refusal, verb, words in (
        (NotFound, block_labels, ("*bank*", "nowhere.test")),
        (ValidationFailed, block_labels, ("*",)),
        (Conflict, block_labels, ("*bank*",)),
        (Conflict, block_labels, ("*Bank*", ZONE)),
        (NotFound, unblock_labels, ("*bonk*",)),
        (NotFound, unblock_labels, ("*",)),
        (NotFound, unblock_labels, ("*bank*", "nowhere.test")),
    ):
        with registry.refuses(refusal):
            registry.write(verb, OPERATOR, *words)


def test_the_database_holds_that_a_pattern_is_there_once(registry: Registry) -> None:
    registry.write(lambda tx: pattern_store.insert_pattern(tx, None, "*bank*"))
    with pytest.raises(Conflict):
        registry.write(lambda tx: pattern_store.insert_pattern(tx, None, "*bank*"))


def test_there_are_only_so_many(registry: Registry) -> None:
    def fill(tx: Tx) -> None:
        for number in range(PATTERNS_MAX):
            pattern_store.insert_pattern(tx, None, f"*{number}")

    registry.write(fill)
    with registry.refuses(Conflict):
        registry.write(block_labels, OPERATOR, "*bank*")
    registry.write(block_labels, OPERATOR, "*bank*", ZONE)
