"""The filters of lists in SQL say what the rules say, for rows of every kind; on both engines."""

import random
from datetime import timedelta
from typing import Any

from sqlalchemy import insert

from registry import START, Registry
from sublet.db import Tx
from sublet.subdomains.lifecycle import derive_status, renewal_available
from sublet.subdomains.list_store import list_all, list_own
from sublet.subdomains.model import STATUSES, ShownSubdomain, Subdomain, SubdomainFilter
from sublet.subdomains.store import subdomains

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
        "trashed_at": START if trashed else None,
        "purged_at": START if trashed and chance.random() < 0.3 else None,
        "created_at": START - chance.randint(0, 50) * DAY,
        "updated_at": START,
    }


def _fill(registry: Registry) -> list[Subdomain]:
    registry.add_domain("short.test", renewal_window_days=1)
    registry.add_domain("long.test", renewal_window_days=3650)
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
    every = [each for each in _fill(registry) if each.trashed_at is None]
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
    ]
    for wanted, rule in cases:
        expected = sorted(
            (each for each in every if each.user_id == ann and rule(each)),
            key=lambda each: (each.created_at, each.id),
            reverse=True,
        )
        shown = [_shown(each) for each in expected]
        assert registry.read(list_own, ann, wanted, COUNT, None) == shown, wanted
