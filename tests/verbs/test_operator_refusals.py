"""Each refusal of the operator's verbs: its error and field. The registry stays unchanged."""

from collections.abc import Callable
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pytest
from sqlalchemy.exc import IntegrityError

from sublet.accounts.store import insert_user
from sublet.accounts.tokens.issue import issue_token, revoke_token
from sublet.accounts.users import UserEdit, add_user, edit_user, suspend_user, unsuspend_user
from sublet.credits.coupons import CouponTerms, add_coupon, retire_coupon
from sublet.credits.entries import (
    ExternalPayment,
    adjust_credits,
    grant_credits,
    record_payment,
    refund_charge,
)
from sublet.credits.packages import add_package, retire_package
from sublet.errors import Conflict, NotFound, Refusal, ValidationFailed
from sublet.platform_domains.labels import set_label, unset_label
from sublet.platform_domains.offers import offer_mode, withdraw_offer
from sublet.platform_domains.platform_domain import (
    add_platform_domain,
    edit_platform_domain,
    grant_platform_domain,
    revoke_platform_domain,
)
from sublet.subdomains.purge import purge
from sublet.subdomains.restore import operator_restore
from sublet.subdomains.store import list_unreleased_names
from sublet.subdomains.suspend import suspend, unsuspend
from support.operator_registry import ANNA, BOB, Registry, small_registry

DOMAIN, ALPHA = "example.test", "alpha.example.test"
Case = tuple[str, Callable[[Registry], object], type[Refusal], str]


def _add_domain(
    domain: str, said: dict[str, Any] | None = None, zone_file: str | None = None
) -> Callable[[Registry], object]:
    return lambda r: r.do(
        add_platform_domain, domain, said or {}, names_held=list_unreleased_names, zone_file=zone_file
    )


def _pay(**made: object) -> Callable[[Registry], object]:
    return lambda r: r.do(record_payment, ANNA, ExternalPayment(**{"reference": "x-1", **made}))  # type: ignore[arg-type]


def _coupon(code: str = "HALF", **terms: object) -> Callable[[Registry], object]:
    return lambda r: r.do(add_coupon, code, CouponTerms(**terms))  # type: ignore[arg-type]


ACCOUNTS: list[Case] = [
    ("email without @", lambda r: r.do(add_user, "carl", "C"), ValidationFailed, "email"),
    ("email with a space", lambda r: r.do(add_user, "a b@example.net", "C"), ValidationFailed, "email"),
    ("email with one label", lambda r: r.do(add_user, "carl@localhost", "C"), ValidationFailed, "email"),
    ("long email", lambda r: r.do(add_user, "c" * 65 + "@example.net", "C"), ValidationFailed, "email"),
    ("blank name", lambda r: r.do(add_user, "carl@example.net", " "), ValidationFailed, "name"),
    ("name that rings", lambda r: r.do(add_user, "carl@example.net", "C\a"), ValidationFailed, "name"),
    ("long name", lambda r: r.do(add_user, "carl@example.net", "C" * 201), ValidationFailed, "name"),
    ("quota", lambda r: r.do(add_user, "c@example.net", "C", free_quota=-1), ValidationFailed, "free_quota"),
    ("known user, any case", lambda r: r.do(add_user, ANNA.upper(), "Anna"), Conflict, ""),
    (
        "blank organization",
        lambda r: r.do(add_user, "c@example.net", "C", " "),
        ValidationFailed,
        "organization",
    ),
    ("edit: unknown", lambda r: r.do(edit_user, "no@example.net", UserEdit(name="N")), NotFound, ""),
    ("edit: nothing", lambda r: r.do(edit_user, ANNA, UserEdit()), ValidationFailed, ""),
    ("edit: another's address", lambda r: r.do(edit_user, ANNA, UserEdit(email=BOB)), Conflict, ""),
    (
        "edit: organization made, then refused",
        lambda r: r.do(edit_user, ANNA, UserEdit(free_quota=-1, organization="New")),
        ValidationFailed,
        "free_quota",
    ),
    (
        "edit: both quotas",
        lambda r: r.do(edit_user, ANNA, UserEdit(free_quota=1, default_free_quota=True)),
        ValidationFailed,
        "free_quota",
    ),
    ("suspend: unknown", lambda r: r.do(suspend_user, "99", "r"), NotFound, ""),
    ("suspend: long reason", lambda r: r.do(suspend_user, ANNA, "r" * 501), ValidationFailed, "reason"),
    ("unsuspend: not suspended", lambda r: r.do(unsuspend_user, ANNA), Conflict, ""),
    ("token: unknown", lambda r: r.do(issue_token, "99", "t"), NotFound, ""),
    ("token: blank name", lambda r: r.do(issue_token, ANNA, ""), ValidationFailed, "name"),
    ("token: scope", lambda r: r.do(issue_token, ANNA, "t", scopes=["root"]), ValidationFailed, "scopes"),
    (
        "token: days",
        lambda r: r.do(issue_token, ANNA, "t", expires_in_days=0),
        ValidationFailed,
        "expires_in_days",
    ),
    ("revoke: none", lambda r: r.do(revoke_token, 99), NotFound, ""),
]
DOMAINS: list[Case] = [
    ("domain: no name", _add_domain("no name"), ValidationFailed, "domain"),
    ("domain: there", _add_domain("EXAMPLE.test."), Conflict, ""),
    ("domain: a held name", _add_domain(ALPHA), Conflict, ""),
    ("domain: below a held name", _add_domain("deep." + ALPHA), Conflict, ""),
    (
        "domain: min over max",
        _add_domain("o.test", {"nameservers_min": 4, "nameservers_max": 2}),
        ValidationFailed,
        "nameservers_min",
    ),
    (
        "domain: 14 nameservers",
        _add_domain("o.test", {"nameservers_max": 14}),
        ValidationFailed,
        "nameservers_max",
    ),
    (
        "domain: apex",
        _add_domain("o.test", {"apex_nameservers": ("a b",)}),
        ValidationFailed,
        "apex_nameservers[0]",
    ),
    (
        "domain: apex twice",
        _add_domain("o.test", {"apex_nameservers": ("n.o.test", "N.o.test.")}),
        ValidationFailed,
        "apex_nameservers",
    ),
    ("domain: rname", _add_domain("o.test", {"soa_rname": "a.b@o.test"}), ValidationFailed, "soa_rname"),
    ("domain: serial", _add_domain("o.test", {"serial": 2**32}), ValidationFailed, "serial"),
    (
        "zone: include",
        _add_domain("o.test", None, "$TTL 60\n$INCLUDE /etc/passwd\n"),
        ValidationFailed,
        "zone_file",
    ),
    (
        "zone: foreign",
        _add_domain("o.test", None, "$TTL 60\na.p.test. A 192.0.2.1\n"),
        ValidationFailed,
        "zone_file",
    ),
    ("zone: signed", _add_domain("o.test", None, "$TTL 60\n@ NSEC a A\n"), ValidationFailed, "zone_file"),
    ("zone: broken", _add_domain("o.test", None, "$TTL 60\na A 192.0.2\n"), ValidationFailed, "zone_file"),
    ("zone: open bracket", _add_domain("o.test", None, "@ SOA ("), ValidationFailed, "zone_file"),
    (
        "zone: owner",
        _add_domain("o.test", None, "$TTL 60\na\\.b A 192.0.2.1\n"),
        ValidationFailed,
        "zone_file",
    ),
    ("edit: none", lambda r: r.do(edit_platform_domain, "o.test", {"idn": False}), NotFound, ""),
    ("edit: nothing", lambda r: r.do(edit_platform_domain, DOMAIN, {}), ValidationFailed, ""),
    (
        "edit: serial",
        lambda r: r.do(edit_platform_domain, DOMAIN, {"serial": 2**31 + 2}),
        ValidationFailed,
        "serial",
    ),
    (
        "edit: days",
        lambda r: r.do(edit_platform_domain, DOMAIN, {"grace_days": -1}),
        ValidationFailed,
        "grace_days",
    ),
    ("grant: no domain", lambda r: r.do(grant_platform_domain, "o.test", "acme"), NotFound, ""),
    ("grant: unknown", lambda r: r.do(grant_platform_domain, DOMAIN, "none"), NotFound, ""),
    ("revoke: not granted", lambda r: r.do(revoke_platform_domain, DOMAIN, "acme"), NotFound, ""),
    ("offer: mode", lambda r: r.do(offer_mode, DOMAIN, "admin", price_credits=1), ValidationFailed, "mode"),
    ("offer: no price", lambda r: r.do(offer_mode, DOMAIN, "premium"), ValidationFailed, "price_credits"),
    (
        "offer: free for 1",
        lambda r: r.do(offer_mode, DOMAIN, "free", price_credits=1),
        ValidationFailed,
        "price_credits",
    ),
    (
        "offer: below 0",
        lambda r: r.do(offer_mode, DOMAIN, "plus", price_credits=-1),
        ValidationFailed,
        "price_credits",
    ),
    (
        "offer: 0 days",
        lambda r: r.do(offer_mode, DOMAIN, "plus", period_days=0),
        ValidationFailed,
        "period_days",
    ),
    ("withdraw: never", lambda r: r.do(withdraw_offer, DOMAIN, "premium"), NotFound, ""),
    ("label: dot", lambda r: r.do(set_label, DOMAIN, "a.b", "premium"), ValidationFailed, "label"),
    ("label: class", lambda r: r.do(set_label, DOMAIN, "a", "gold"), ValidationFailed, "label_class"),
    (
        "label: price",
        lambda r: r.do(set_label, DOMAIN, "a", "blocked", price_credits=1),
        ValidationFailed,
        "price_credits",
    ),
    (
        "label: grant",
        lambda r: r.do(set_label, DOMAIN, "a", "premium", organizations=["acme"]),
        ValidationFailed,
        "organizations",
    ),
    (
        "label: unknown",
        lambda r: r.do(set_label, DOMAIN, "a", "special", organizations=["none"]),
        NotFound,
        "",
    ),
    ("unset: not listed", lambda r: r.do(unset_label, DOMAIN, "a"), NotFound, ""),
]
CREDITS: list[Case] = [
    ("grant: unknown", lambda r: r.do(grant_credits, "99", 5, "r"), NotFound, ""),
    ("grant: 0", lambda r: r.do(grant_credits, ANNA, 0, "r"), ValidationFailed, "credits"),
    ("grant: below 0", lambda r: r.do(grant_credits, ANNA, -5, "r"), ValidationFailed, "credits"),
    ("grant: too much", lambda r: r.do(grant_credits, ANNA, 10**12 + 1, "r"), ValidationFailed, "credits"),
    ("grant: no reason", lambda r: r.do(grant_credits, ANNA, 5, " "), ValidationFailed, "reason"),
    ("adjust: 0", lambda r: r.do(adjust_credits, ANNA, 0), ValidationFailed, "credits"),
    ("adjust: too far", lambda r: r.do(adjust_credits, ANNA, -91), Conflict, ""),
    ("refund: none", lambda r: r.do(refund_charge, 99), NotFound, ""),
    ("refund: a grant", lambda r: r.do(refund_charge, 1), Conflict, ""),
    ("refund: too much", lambda r: r.do(refund_charge, 2, 11), ValidationFailed, "credits"),
    ("refund: 0", lambda r: r.do(refund_charge, 2, 0), ValidationFailed, "credits"),
    ("package: price", lambda r: r.do(add_package, "P", 5, "1e3", "EUR"), ValidationFailed, "price"),
    ("package: currency", lambda r: r.do(add_package, "P", 5, "1", "EURO"), ValidationFailed, "currency"),
    ("package: credits", lambda r: r.do(add_package, "P", 0, "1", "EUR"), ValidationFailed, "credits"),
    ("package: retire none", lambda r: r.do(retire_package, 99), NotFound, ""),
    ("payment: no package", _pay(package_id=99), NotFound, ""),
    ("payment: nothing", _pay(), ValidationFailed, "credits"),
    ("payment: no currency", _pay(credits=5, amount="1"), ValidationFailed, "currency"),
    (
        "payment: reference",
        _pay(credits=5, amount="1", currency="EUR", reference="a b"),
        ValidationFailed,
        "reference",
    ),
    ("coupon: code", _coupon("A B", percent=5), ValidationFailed, "code"),
    ("coupon: nothing off", _coupon(), ValidationFailed, "percent"),
    ("coupon: both", _coupon(percent=5, fixed_credits=5), ValidationFailed, "percent"),
    ("coupon: 101 %", _coupon(percent=101), ValidationFailed, "percent"),
    ("coupon: 0 credits", _coupon(fixed_credits=0), ValidationFailed, "fixed_credits"),
    ("coupon: 0 uses", _coupon(percent=5, max_uses=0), ValidationFailed, "max_uses"),
    (
        "coupon: over",
        _coupon(percent=5, valid_until=datetime(2026, 1, 1, tzinfo=UTC)),
        ValidationFailed,
        "valid_until",
    ),
    ("coupon: action", _coupon(percent=5, action="delete"), ValidationFailed, "action"),
    ("coupon: free", _coupon(percent=5, registration_mode="free"), ValidationFailed, "registration_mode"),
    ("coupon: domain", _coupon(percent=5, domain="o.test"), NotFound, ""),
    ("coupon: retire none", lambda r: r.do(retire_coupon, "NONE"), NotFound, ""),
]
SUBDOMAINS: list[Case] = [
    ("suspend: none", lambda r: r.do(suspend, "none.example.test"), NotFound, ""),
    ("suspend: no name", lambda r: r.do(suspend, "no name"), NotFound, ""),
    ("suspend: long reason", lambda r: r.do(suspend, ALPHA, "r" * 501), ValidationFailed, "reason"),
    ("unsuspend: not suspended", lambda r: r.do(unsuspend, ALPHA), Conflict, ""),
    ("restore: live", lambda r: r.do(operator_restore, ALPHA), Conflict, ""),
    ("purge: live", lambda r: r.do(purge, ALPHA), Conflict, ""),
    ("purge: none", lambda r: r.do(purge, "none.example.test"), NotFound, ""),
]


@pytest.fixture(scope="module")
def unchanged(tmp_path_factory: pytest.TempPathFactory) -> Registry:
    """A registry for all refusals, since each must leave it unchanged."""
    return small_registry(tmp_path_factory.mktemp("refusals"))


@pytest.mark.parametrize("case", [*ACCOUNTS, *DOMAINS, *CREDITS, *SUBDOMAINS], ids=lambda case: case[0])
def test_a_refusal_names_the_field_and_leaves_no_trace(case: Case, unchanged: Registry) -> None:
    _, attempt, refusal, field = case
    registry = unchanged
    before = registry.rows()
    with pytest.raises(refusal) as raised:
        attempt(registry)
    assert type(raised.value) is refusal
    assert [each.field for each in raised.value.errors][:1] == ([field] if field else [])
    assert raised.value.message.endswith(".")
    assert registry.rows() == before


TWICE: list[tuple[str, Callable[[Registry], object], type[Refusal]]] = [
    ("suspend user", lambda r: r.do(suspend_user, ANNA), Conflict),
    ("revoke token", lambda r: r.do(revoke_token, 1), Conflict),
    ("withdraw offer", lambda r: r.do(withdraw_offer, DOMAIN, "plus"), Conflict),
    ("refund", lambda r: r.do(refund_charge, 2, 3), Conflict),
    ("payment", _pay(credits=5, amount="1", currency="EUR"), Conflict),
    ("coupon", _coupon(percent=5), Conflict),
    ("retire package", lambda r: r.do(retire_package, 1), Conflict),
    ("suspend name", lambda r: r.do(suspend, ALPHA, "spam"), Conflict),
]


@pytest.mark.parametrize("case", TWICE, ids=lambda case: case[0])
def test_the_second_time_is_a_conflict_that_leaves_no_trace(
    case: tuple[str, Callable[[Registry], object], type[Refusal]], tmp_path: Path
) -> None:
    registry = small_registry(tmp_path)
    registry.do(issue_token, ANNA, "t")
    registry.do(add_package, "P", 5, "1", "EUR")
    case[1](registry)
    before = registry.rows()
    with pytest.raises(case[2]):
        case[1](registry)
    assert registry.rows() == before


def test_a_retired_coupon_keeps_its_code(tmp_path: Path) -> None:
    registry = small_registry(tmp_path)
    registry.do(add_coupon, "half", CouponTerms(percent=50))
    registry.do(retire_coupon, "HALF")
    before = registry.rows()
    with pytest.raises(Conflict):
        registry.do(retire_coupon, "half")
    with pytest.raises(Conflict):
        registry.do(add_coupon, "HALF", CouponTerms(percent=5))
    assert registry.rows() == before


def test_all_invalid_fields_are_reported_together(tmp_path: Path) -> None:
    registry = small_registry(tmp_path)
    with pytest.raises(ValidationFailed) as raised:
        registry.do(add_user, "x", "", free_quota=-1)
    assert [each.field for each in raised.value.errors] == ["email", "name", "free_quota"]


def test_a_name_of_several_organizations_is_a_conflict(tmp_path: Path) -> None:
    registry = small_registry(tmp_path)
    registry.do(edit_user, ANNA, UserEdit(email="new@example.net"))
    again = registry.do(add_user, ANNA, "Another Anna")
    assert again.organization.slug == "anna-example-net-2"
    before = registry.rows()
    with pytest.raises(Conflict, match="id 1"):
        registry.do(grant_platform_domain, DOMAIN, ANNA)
    assert registry.rows() == before
    assert registry.do(grant_platform_domain, DOMAIN, "anna-example-net-2").organization == again.organization


def test_the_database_keeps_addresses_unique(tmp_path: Path) -> None:
    registry = small_registry(tmp_path)
    before = registry.rows()
    with pytest.raises(IntegrityError):
        registry.write(insert_user, ANNA, "Anna", 1, None)
    assert registry.rows() == before
