"""The filters of lists in SQL agree with the rules, for rows of every kind; on both databases."""

import random
from datetime import timedelta
from itertools import product
from typing import Any

from sqlalchemy import insert

from sublet.db import Tx
from sublet.dns.names import to_unicode
from sublet.ids import Position
from sublet.platform_domains.model import PlatformDomain, is_visible
from sublet.platform_domains.platform_domain import grant_platform_domain
from sublet.platform_domains.store import (
    granted_platform_domain_ids,
    list_platform_domains,
    list_visible,
)
from sublet.subdomains.lifecycle import derive_status, is_restorable, renewal_available
from sublet.subdomains.list_store import list_all, list_own
from sublet.subdomains.model import STATUSES, ShownSubdomain, Subdomain, SubdomainFilter
from sublet.subdomains.store import subdomains
from support.registry import OPERATOR, START, Registry

TICK = timedelta(microseconds=1)
DAY = timedelta(days=1)
COUNT = 600
TIMES = [
    day * DAY + by for day in (-31, 0, 1, 7, 29, 30, 31, 60, 364, 365) for by in (-TICK, timedelta(), TICK)
]


def _row(chance: random.Random, registry: Registry, number: int) -> dict[str, Any]:
    domain = chance.choice(list(registry.domains))
    nameservers = chance.choice([[], ["ns1.example.org"]])
    generation = chance.randint(0, 3)
    trashed = chance.random() < 0.2
    suspended_at = START if chance.random() < 0.2 else None
    unsuspended_at = chance.choice([None, START - 30 * DAY + chance.choice([-TICK, timedelta(), TICK])])
    return {
        "user_id": registry.users[chance.choice(["ann", "ben"])],
        "platform_domain_id": registry.domains[domain],
        "label": f"n{number}",
        "fqdn": f"n{number}.{domain}",
        "registration_type": chance.choice(["free", "plus"]),
        "registration_source": "api",
        "nameservers": nameservers,
        "nameserver_count": len(nameservers),
        "glue": [],
        "ds_records": [],
        "ds_record_count": 0,
        "generation": generation,
        "published_generation": chance.choice([generation, chance.randint(0, generation)]),
        "provision_error": chance.choice([None, "refused"]),
        "attempts": 0,
        "registered_at": START - 400 * DAY,
        "expires_at": START + chance.choice(TIMES),
        "period_days": chance.choice([1, 7, 30, 365]),
        "suspended_at": suspended_at,
        "unsuspended_at": unsuspended_at,
        "trashed_at": START - chance.choice([0, 1, 29, 30, 31]) * DAY if trashed else None,
        "purged_at": START if trashed and chance.random() < 0.3 else None,
        "created_at": START - chance.randint(0, 50) * DAY,
        "updated_at": START,
    }


def _fill(registry: Registry) -> list[Subdomain]:
    registry.add_domain("short.test", renewal_window_days=1)
    registry.add_domain("long.test", renewal_window_days=3650, trash_days=1)
    chance = random.Random(20261121)  # noqa: S311 - the same rows each time
    rows = [_row(chance, registry, number) for number in range(COUNT)]
    registry.write(lambda tx: tx.connection.execute(insert(subdomains), rows).rowcount)

    def everything(tx: Tx) -> list[Subdomain]:
        live = list_all(tx, SubdomainFilter(), COUNT)
        return [*live, *list_all(tx, SubdomainFilter(status="trashed"), COUNT)]

    found = registry.read(everything)
    assert len(found) == sum(row["purged_at"] is None for row in rows)
    return found


def _shown(subdomain: Subdomain) -> ShownSubdomain:
    return ShownSubdomain(*(getattr(subdomain, name) for name in ShownSubdomain.__struct_fields__))


def test_filters_agree_with_the_rules(registry: Registry) -> None:
    every = _fill(registry)
    seen: set[str] = set()
    for status in STATUSES:
        by_rule = {each.id for each in every if derive_status(each, registry.now) == status}
        by_store = registry.read(list_all, SubdomainFilter(status=status), COUNT)
        assert {each.id for each in by_store} == by_rule, status
        seen |= {status} if by_rule else set()
    assert seen == set(STATUSES)
    live = [each for each in every if each.trashed_at is None]
    for wanted in (True, False):
        by_rule = {each.id for each in live if renewal_available(each, registry.now) is wanted}
        by_store = registry.read(list_all, SubdomainFilter(renewal_available=wanted), COUNT)
        assert {each.id for each in by_store} == by_rule
        assert by_rule
        for status in STATUSES:
            both = registry.read(list_all, SubdomainFilter(status=status, renewal_available=wanted), COUNT)
            assert {each.id for each in both} == {
                each.id
                for each in every
                if derive_status(each, registry.now) == status
                and renewal_available(each, registry.now) is wanted
            }


def test_the_other_filters_and_the_order(registry: Registry) -> None:
    every = _fill(registry)
    ann = registry.users["ann"]
    cases: list[tuple[SubdomainFilter, Any]] = [
        (SubdomainFilter(), lambda _: True),
        (SubdomainFilter(domain="long.test"), lambda each: each.domain == "long.test"),
        (SubdomainFilter(q="N1"), lambda each: "n1" in each.fqdn),
        (SubdomainFilter(q="%"), lambda _: False),
        (SubdomainFilter(q="_"), lambda _: False),
        (SubdomainFilter(registration_type="plus"), lambda each: each.registration_type == "plus"),
        (SubdomainFilter(expires_before=START), lambda each: each.expires_at < START),
        (SubdomainFilter(expires_after=START), lambda each: each.expires_at > START),
        (SubdomainFilter(dnssec_enabled=True), lambda _: False),
        (SubdomainFilter(dnssec_enabled=False), lambda _: True),
        (SubdomainFilter(status="trashed"), lambda each: is_restorable(each, registry.now)),
    ]
    for wanted, rule in cases:
        expected = sorted(
            (
                each
                for each in every
                if each.user_id == ann
                and rule(each)
                and (each.trashed_at is not None) == (wanted.status is not None)
            ),
            key=lambda each: (each.created_at, each.id),
            reverse=True,
        )
        shown = [_shown(each) for each in expected]
        assert registry.read(list_own, registry.actor(), wanted, COUNT, None) == shown, wanted


def test_the_listed_platform_domains_are_the_visible_ones(registry: Registry) -> None:
    for n, (hidden, restricted, granted) in enumerate(product((False, True), repeat=3)):
        registry.add_domain(f"d{n}.test", hidden=hidden, restricted=restricted)
        if granted:
            registry.write(grant_platform_domain, OPERATOR, f"d{n}.test", str(registry.organizations["ann"]))
        registry.advance(seconds=n % 2)  # some were added in the same moment
    of = registry.organizations
    granted_ids = registry.read(granted_platform_domain_ids, of["ann"])
    for name, ids in (("ann", granted_ids), ("ben", frozenset[int]())):
        by_rule = [each for each in registry.read(list_platform_domains) if is_visible(each, ids)]
        assert registry.read(list_visible, OPERATOR, of[name], 100, None) == by_rule
        paged: list[PlatformDomain] = []
        while some := registry.read(
            list_visible,
            OPERATOR,
            of[name],
            2,
            Position(paged[-1].created_at, paged[-1].id) if paged else None,
        ):
            assert len(some) <= 2
            paged += some
        assert paged == by_rule
    assert len(granted_ids) == 4


def test_a_search_finds_the_unicode_form_too(registry: Registry) -> None:
    """A search in either form of a name finds it, on every page."""
    registry.add_user("carl", free_quota=100)
    unicode_names = ["bücher", "bücherei", "büro", "straße", "日本", "über-cher"]
    for label in [*unicode_names, "bucher", "cher", "plain"]:
        registry.register(f"{label}.example.test", "carl")
        registry.advance(seconds=1)

    def found(q: str, limit: int = 100) -> list[str]:
        pages: list[ShownSubdomain] = []
        while True:
            after = Position(pages[-1].created_at, pages[-1].id) if pages else None
            page = registry.read(list_own, registry.actor("carl"), SubdomainFilter(q=q), limit, after)
            pages += page
            if len(page) < limit:
                break
        everyones = registry.read(list_all, SubdomainFilter(q=q), 100)
        assert [each.fqdn for each in everyones] == [each.fqdn for each in pages]
        return [to_unicode(each.fqdn).removesuffix(".example.test") for each in pages][::-1]

    assert found("bücher") == found("BÜCHER") == found("bu\u0308cher") == ["bücher", "bücherei"]
    assert found("büch") == found("\uff42üch") == ["bücher", "bücherei"]
    assert found("ü") == found("ü", limit=1) == ["bücher", "bücherei", "büro", "über-cher"]
    assert found("ß") == ["straße"]
    assert found("本.example") == ["日本"]
    assert found("cher.exam") == ["bücher", "über-cher", "bucher", "cher"]
    assert found("cher") == ["bücher", "bücherei", "über-cher", "bucher", "cher"]
    assert found("xn--bcher-kva") == ["bücher"]
    assert found("ü%") == found("ü ") == found("ä") == []
    assert len(found(".example.test", limit=4)) == 9
