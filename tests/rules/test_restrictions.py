"""What a token may do: names, platform domains, networks, and whether another token may do more."""

from datetime import UTC, datetime, timedelta
from typing import Any

import pytest

from sublet.restrictions import (
    ITEMS_MAX,
    LIFE_MAX,
    SCOPES,
    UNRESTRICTED,
    Restrictions,
    check_restrictions,
)

NOW = datetime(2026, 11, 21, 9, 30, tzinfo=UTC)
DAY = timedelta(days=1)


@pytest.mark.parametrize(
    ("names", "domains", "allowed"),
    [
        (None, None, {"a.x.test", "b.x.test", "a.b.x.test", "a.y.test", "x.test"}),
        (("a.x.test",), None, {"a.x.test"}),
        (("*.x.test",), None, {"a.x.test", "b.x.test", "a.b.x.test"}),
        (("*.b.x.test", "a.y.test"), None, {"a.b.x.test", "a.y.test"}),
        (None, ("x.test",), {"a.x.test", "b.x.test"}),
        (None, ("b.x.test",), {"a.b.x.test"}),
        (("*.x.test",), ("x.test", "y.test"), {"a.x.test", "b.x.test"}),
        (("a.y.test",), ("x.test",), set()),
        (("*.test",), ("test",), {"x.test"}),
    ],
)
def test_names(names: tuple[str, ...] | None, domains: tuple[str, ...] | None, allowed: set[str]) -> None:
    restrictions = Restrictions(names=names, domains=domains)
    every = {"a.x.test", "b.x.test", "a.b.x.test", "a.y.test", "x.test"}
    assert {each for each in every if restrictions.allows_name(each)} == allowed
    assert restrictions.allows_all_names == (names is domains is None)


@pytest.mark.parametrize(
    ("names", "domains", "allowed"),
    [
        (None, None, {"x.test", "b.x.test", "y.test"}),
        (("a.x.test",), None, {"x.test"}),
        (("*.x.test",), None, {"x.test", "b.x.test"}),
        (("a.b.x.test", "*.y.test"), None, {"b.x.test", "y.test"}),
        (None, ("x.test",), {"x.test"}),
        (("a.x.test",), ("y.test",), set()),
    ],
)
def test_platform_domains(
    names: tuple[str, ...] | None, domains: tuple[str, ...] | None, allowed: set[str]
) -> None:
    restrictions = Restrictions(names=names, domains=domains)
    assert {each for each in ("x.test", "b.x.test", "y.test") if restrictions.allows_domain(each)} == allowed


@pytest.mark.parametrize(
    ("networks", "address", "allowed"),
    [
        (None, "", True),
        (("192.0.2.0/24",), "192.0.2.255", True),
        (("192.0.2.0/24",), "192.0.3.0", False),
        (("192.0.2.0/24",), "2001:db8::1", False),
        (("192.0.2.0/24", "2001:db8::/32"), "2001:db8:1::1", True),
        (("fe80::/10",), "fe80::1%eth0", True),
        (("0.0.0.0/0",), "", False),
        (("0.0.0.0/0",), "testclient", False),
        ((), "192.0.2.1", False),
    ],
)
def test_addresses(networks: tuple[str, ...] | None, address: str, allowed: bool) -> None:
    assert Restrictions(networks=networks).allows_address(address) is allowed


def _one(field: str, value: object) -> Restrictions:
    return Restrictions(**{field: value})  # type: ignore[arg-type]


# The outer value, values that are within it, values that exceed it.
WITHIN: dict[str, tuple[object, tuple[object, ...], tuple[object, ...]]] = {
    "scopes": (
        ("account:read", "tickets:read"),
        (("account:read",), ("tickets:read", "account:read")),
        (SCOPES, ("account:read", "tickets:write")),
    ),
    "names": (
        ("a.x.test", "*.y.test"),
        (("a.x.test",), ("b.y.test", "a.b.y.test"), ("*.y.test",), ("*.b.y.test",)),
        (None, ("b.x.test",), ("*.x.test",), ("y.test",), ("*.test",), ("a.x.test", "*.ay.test")),
    ),
    "domains": (("x.test", "y.test"), (("x.test",), ("y.test", "x.test")), (None, ("z.test",), ("x.test", "b.x.test"))),  # noqa: E501
    "networks": (
        ("192.0.2.0/25", "192.0.2.128/25", "2001:db8::/32"),
        (("192.0.2.7/32",), ("192.0.2.0/24",), ("2001:db8:1::/48", "192.0.2.128/26")),
        (None, ("192.0.2.0/23",), ("::/0",), ("192.0.2.7/32", "192.0.3.7/32")),
    ),
    "daily_credits": (10, (0, 10), (None, 11)),
    "expires_at": (NOW + DAY, (NOW + DAY, NOW), (None, NOW + 2 * DAY)),
}  # fmt: skip


@pytest.mark.parametrize("field", WITHIN)
def test_tokens_that_may_do_no_more_and_tokens_that_may(field: str) -> None:
    outer, within, beyond = WITHIN[field]
    restrictions = _one(field, outer)
    for value in within:
        assert restrictions.exceeded_by(_one(field, value)) == [], value
        assert UNRESTRICTED.exceeded_by(_one(field, value)) == [], value
    for value in beyond:
        assert restrictions.exceeded_by(_one(field, value)) == [field], value


def test_values_are_stored_in_one_form() -> None:
    checked, errors = check_restrictions(
        Restrictions(
            scopes=("tickets:read", "account:read", "tickets:read"),
            names=("A.X.test.", "*.Bücher.test", "a.x.test"),
            domains=("X.TEST",),
            networks=("192.0.2.0/24", "192.0.2.7", "2001:DB8::/32"),
            daily_credits=0,
            expires_at=NOW + LIFE_MAX,
        ),
        NOW,
    )
    assert errors == []
    assert checked == Restrictions(
        scopes=("account:read", "tickets:read"),
        names=("a.x.test", "*.xn--bcher-kva.test"),
        domains=("x.test",),
        networks=("192.0.2.0/24", "192.0.2.7/32", "2001:db8::/32"),
        daily_credits=0,
        expires_at=NOW + LIFE_MAX,
    )


@pytest.mark.parametrize(
    ("field", "value", "found"),
    [
        ("scopes", (), ("scopes", "value_invalid")),
        ("scopes", ("nothing",), ("scopes", "value_invalid")),
        ("names", (), ("names", "value_invalid")),
        ("domains", (), ("domains", "value_invalid")),
        ("networks", (), ("networks", "value_invalid")),
        ("record_names", (), ("record_names", "value_invalid")),
        ("names", ("a.x.test", "*.*.x.test"), ("names[1]", "value_invalid")),
        ("names", ("*",), ("names[0]", "value_invalid")),
        ("names", ("a.*.test",), ("names[0]", "value_invalid")),
        ("names", ("x",), ("names[0]", "value_invalid")),
        ("names", tuple(f"n{n}.x.test" for n in range(ITEMS_MAX + 1)), ("names", "too_long")),
        ("domains", ("*.x.test",), ("domains[0]", "value_invalid")),
        ("networks", ("192.0.2.1/24",), ("networks[0]", "value_invalid")),
        ("networks", ("x",), ("networks[0]", "value_invalid")),
        ("networks", ("fe80::1%a\n/128",), ("networks[0]", "value_invalid")),
        ("networks", ("",), ("networks[0]", "value_invalid")),
        ("daily_credits", -1, ("daily_credits", "value_invalid")),
        ("daily_credits", 10**13, ("daily_credits", "value_invalid")),
        ("expires_at", NOW, ("expires_at", "value_invalid")),
        ("expires_at", NOW + LIFE_MAX + DAY, ("expires_at", "value_invalid")),
    ],
)
def test_invalid_values(field: str, value: Any, found: tuple[str, str]) -> None:
    sent: dict[str, Any] = {"scopes": ("records:write",), field: value}
    _, errors = check_restrictions(Restrictions(**sent), NOW)
    assert [(each.field, each.code) for each in errors] == [found]
