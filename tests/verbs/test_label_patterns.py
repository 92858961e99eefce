"""Blocked label patterns: the registrations that they refuse, and the names that the operator sees."""

import pytest

from sublet.db import Tx
from sublet.errors import Conflict, NotFound, SubdomainUnavailable, ValidationFailed
from sublet.platform_domains import store as platform_domain_store
from sublet.platform_domains.labels import PATTERNS_MAX, block_labels, set_label, unblock_labels
from sublet.platform_domains.model import Label
from sublet.subdomains.matching_names import list_matching
from support.registry import OPERATOR, Registry
from support.statements import recorded_statements

ZONE, OTHER = "example.test", "other.test"
BANK = f"my-bank-login.{ZONE}"


def test_blocked_labels_can_not_be_registered(registry: Registry) -> None:
    registry.write(block_labels, OPERATOR, "*bank*")
    with registry.refuses(SubdomainUnavailable) as caught:
        registry.register(BANK)
    assert caught[0].details == {"reason": "reserved", "owned": False}
    assert "*" not in caught[0].message
    registry.register(f"blog.{ZONE}")
    registry.write(unblock_labels, OPERATOR, "*BANK*")
    registry.register(BANK)
    assert registry.doctor() == []


def test_a_pattern_blocks_no_listed_label_and_none_of_another_platform_domain(registry: Registry) -> None:
    registry.add_domain(OTHER)
    registry.write(block_labels, OPERATOR, "*bank*", OTHER)
    registry.write(block_labels, OPERATOR, "*bank*", ZONE)
    registry.write(set_label, OPERATOR, ZONE, "my-bank-login", "standard")
    registry.register(BANK)
    registry.write(unblock_labels, OPERATOR, "*bank*", ZONE)
    registry.register(f"riverbank.{ZONE}", "ben")
    with registry.refuses(SubdomainUnavailable):
        registry.register(f"my-bank-login.{OTHER}")


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
        registry.refused(refusal, verb, OPERATOR, *words)


def test_the_list_of_labels_takes_two_statements(registry: Registry) -> None:
    for label, organizations in (("b", ["1"]), ("a", ["2", "1"]), ("c", [])):
        registry.write(set_label, OPERATOR, ZONE, label, "special", organizations=organizations)

    def listed(tx: Tx) -> tuple[list[Label], list[str]]:
        with recorded_statements(of_this_thread=True) as texts:
            return platform_domain_store.list_labels(tx, registry.domains[ZONE]), texts

    found, texts = registry.read(listed)
    assert [(each.label, each.organization_ids) for each in found] == [("a", (1, 2)), ("b", (1,)), ("c", ())]
    assert len(texts) == 2


def test_the_number_of_patterns_is_limited(registry: Registry) -> None:
    def fill(tx: Tx) -> None:
        for number in range(PATTERNS_MAX):
            platform_domain_store.insert_pattern(tx, None, f"*{number}")

    registry.write(fill)
    registry.refused(Conflict, block_labels, OPERATOR, "*bank*")
    registry.write(block_labels, OPERATOR, "*bank*", ZONE)


def test_the_database_holds_patterns_unique(registry: Registry) -> None:
    registry.write(lambda tx: platform_domain_store.insert_pattern(tx, None, "*bank*"))
    with pytest.raises(Conflict):
        registry.write(lambda tx: platform_domain_store.insert_pattern(tx, None, "*bank*"))
