"""Each refusal of the operator's verbs: its error and field. The registry stays unchanged."""

from collections.abc import Callable
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pytest

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
from sublet.subdomains.edit_zone_settings import edit_zone_settings
from sublet.subdomains.purge import purge
from sublet.subdomains.restore import operator_restore
from sublet.subdomains.store import list_unreleased_names
from sublet.subdomains.suspend import suspend, unsuspend
from support.operator_registry import ANNA, BOB, Registry, small_registry

DOMAIN, ALPHA = "example.test", "alpha.example.test"
Attempt = Callable[[Registry], object]
Case = tuple[str, Attempt, str | type[Refusal]]


def _do(verb: Callable[..., object], *given: Any, **named: Any) -> Attempt:
    return lambda registry: registry.do(verb, *given, **named)


def _add_domain(domain: str, said: dict[str, Any] | None = None, zone_file: str | None = None) -> Attempt:
    names_held = list_unreleased_names
    return _do(add_platform_domain, domain, said or {}, names_held=names_held, zone_file=zone_file)


def _zone(text: str) -> Attempt:
    return _add_domain("o.test", zone_file=f"$TTL 60\n{text}")


def _pay(**made: Any) -> Attempt:
    return _do(record_payment, ANNA, ExternalPayment(**{"reference": "x-1", **made}))


def _coupon(code: str = "HALF", **terms: Any) -> Attempt:
    return _do(add_coupon, code, CouponTerms(**terms))


REFUSED: list[Case] = [
    ("user: email", _do(add_user, "carl", "C"), "email"),
    ("user: blank name", _do(add_user, "carl@example.net", " "), "name"),
    ("user: quota", _do(add_user, "c@example.net", "C", free_quota=-1), "free_quota"),
    ("user: known, any case", _do(add_user, ANNA.upper(), "Anna"), Conflict),
    ("user: blank organization", _do(add_user, "c@example.net", "C", " "), "organization"),
    ("edit: unknown", _do(edit_user, "no@example.net", UserEdit(name="N")), NotFound),
    ("edit: nothing", _do(edit_user, ANNA, UserEdit()), ValidationFailed),
    ("edit: another's address", _do(edit_user, ANNA, UserEdit(email=BOB)), Conflict),
    ("edit: then refused", _do(edit_user, ANNA, UserEdit(free_quota=-1, organization="New")), "free_quota"),
    ("edit: quotas", _do(edit_user, ANNA, UserEdit(free_quota=1, default_free_quota=True)), "free_quota"),
    ("suspend: unknown", _do(suspend_user, "99", "r"), NotFound),
    ("suspend: long reason", _do(suspend_user, ANNA, "r" * 501), "reason"),
    ("unsuspend: not suspended", _do(unsuspend_user, ANNA), Conflict),
    ("token: unknown", _do(issue_token, "99", "t"), NotFound),
    ("token: blank name", _do(issue_token, ANNA, ""), "name"),
    ("token: scope", _do(issue_token, ANNA, "t", scopes=["root"]), "scopes"),
    ("token: days", _do(issue_token, ANNA, "t", expires_in_days=0), "expires_in_days"),
    ("token: revoke none", _do(revoke_token, 99), NotFound),
    ("domain: no name", _add_domain("no name"), "domain"),
    ("domain: there", _add_domain("EXAMPLE.test."), Conflict),
    ("domain: a held name", _add_domain(ALPHA), Conflict),
    ("domain: below a held name", _add_domain("deep." + ALPHA), Conflict),
    ("domain: range", _add_domain("o.test", {"nameservers_min": 4, "nameservers_max": 2}), "nameservers_min"),
    ("domain: apex", _add_domain("o.test", {"apex_nameservers": ("a b",)}), "apex_nameservers[0]"),
    ("domain: twice", _add_domain("o.test", {"apex_nameservers": ("n.o.test",) * 2}), "apex_nameservers"),
    ("domain: rname", _add_domain("o.test", {"soa_rname": "a.b@o.test"}), "soa_rname"),
    ("zone: include", _zone("$INCLUDE /etc/passwd\n"), "zone_file"),
    ("zone: foreign", _zone("a.p.test. A 192.0.2.1\n"), "zone_file"),
    ("zone: signed", _zone("@ NSEC a A\n"), "zone_file"),
    ("zone: broken", _zone("a A 192.0.2\n"), "zone_file"),
    ("zone: no records", _zone("; Transfer failed.\n"), "zone_file"),
    ("zone: open bracket", _zone("@ SOA ("), "zone_file"),
    ("zone: TTL", _zone("a 2147483648 A 192.0.2.1\n"), "zone_file"),
    ("zone: owner", _zone("a\\.b A 192.0.2.1\n"), "zone_file"),
    ("domain: edit none", _do(edit_platform_domain, "o.test", {"idn": False}), NotFound),
    ("domain: edit nothing", _do(edit_platform_domain, DOMAIN, {}), ValidationFailed),
    ("domain: serial", _do(edit_platform_domain, DOMAIN, {"serial": 2**31 + 2}), "serial"),
    ("domain: days", _do(edit_platform_domain, DOMAIN, {"grace_days": -1}), "grace_days"),
    ("domain: held apex", _do(edit_zone_settings, DOMAIN, {"apex_nameservers": ("a." + ALPHA,)}), Conflict),
    ("domain: grant none", _do(grant_platform_domain, "o.test", "acme"), NotFound),
    ("domain: grant unknown", _do(grant_platform_domain, DOMAIN, "none"), NotFound),
    ("domain: revoke", _do(revoke_platform_domain, DOMAIN, "acme"), NotFound),
    ("offer: mode", _do(offer_mode, DOMAIN, "admin", price_credits=1), "mode"),
    ("offer: no price", _do(offer_mode, DOMAIN, "premium"), "price_credits"),
    ("offer: free for 1", _do(offer_mode, DOMAIN, "free", price_credits=1), "price_credits"),
    ("offer: below 0", _do(offer_mode, DOMAIN, "plus", price_credits=-1), "price_credits"),
    ("offer: 0 days", _do(offer_mode, DOMAIN, "plus", period_days=0), "period_days"),
    ("offer: withdraw none", _do(withdraw_offer, DOMAIN, "premium"), NotFound),
    ("label: dot", _do(set_label, DOMAIN, "a.b", "premium"), "label"),
    ("label: class", _do(set_label, DOMAIN, "a", "gold"), "label_class"),
    ("label: price", _do(set_label, DOMAIN, "a", "blocked", price_credits=1), "price_credits"),
    ("label: grant", _do(set_label, DOMAIN, "a", "premium", organizations=["acme"]), "organizations"),
    ("label: unknown", _do(set_label, DOMAIN, "a", "special", organizations=["none"]), NotFound),
    ("label: unset none", _do(unset_label, DOMAIN, "a"), NotFound),
    ("grant: unknown", _do(grant_credits, "99", 5, "r"), NotFound),
    ("grant: 0", _do(grant_credits, ANNA, 0, "r"), "credits"),
    ("grant: too much", _do(grant_credits, ANNA, 10**12 + 1, "r"), "credits"),
    ("grant: no reason", _do(grant_credits, ANNA, 5, " "), "reason"),
    ("adjust: 0", _do(adjust_credits, ANNA, 0), "credits"),
    ("adjust: too far", _do(adjust_credits, ANNA, -91), Conflict),
    ("refund: none", _do(refund_charge, 99), NotFound),
    ("refund: a grant", _do(refund_charge, 1), Conflict),
    ("refund: too much", _do(refund_charge, 2, 11), "credits"),
    ("refund: 0", _do(refund_charge, 2, 0), "credits"),
    ("package: price", _do(add_package, "P", 5, "1e3", "EUR"), "price"),
    ("package: currency", _do(add_package, "P", 5, "1", "EURO"), "currency"),
    ("package: credits", _do(add_package, "P", 0, "1", "EUR"), "credits"),
    ("package: retire none", _do(retire_package, 99), NotFound),
    ("payment: no package", _pay(package_id=99), NotFound),
    ("payment: nothing", _pay(), "credits"),
    ("payment: no currency", _pay(credits=5, amount="1"), "currency"),
    ("payment: reference", _pay(credits=5, amount="1", currency="EUR", reference="a b"), "reference"),
    ("coupon: code", _coupon("A B", percent=5), "code"),
    ("coupon: nothing off", _coupon(), "percent"),
    ("coupon: both", _coupon(percent=5, fixed_credits=5), "percent"),
    ("coupon: 101 %", _coupon(percent=101), "percent"),
    ("coupon: 0 credits", _coupon(fixed_credits=0), "fixed_credits"),
    ("coupon: 0 uses", _coupon(percent=5, max_uses=0), "max_uses"),
    ("coupon: over", _coupon(percent=5, valid_until=datetime(2026, 1, 1, tzinfo=UTC)), "valid_until"),
    ("coupon: action", _coupon(percent=5, action="delete"), "action"),
    ("coupon: free", _coupon(percent=5, registration_mode="free"), "registration_mode"),
    ("coupon: domain", _coupon(percent=5, domain="o.test"), NotFound),
    ("coupon: retire none", _do(retire_coupon, "NONE"), NotFound),
    ("name: suspend none", _do(suspend, "none.example.test"), NotFound),
    ("name: suspend no name", _do(suspend, "no name"), NotFound),
    ("name: long reason", _do(suspend, ALPHA, "r" * 501), "reason"),
    ("name: not suspended", _do(unsuspend, ALPHA), Conflict),
    ("name: restore live", _do(operator_restore, ALPHA), Conflict),
    ("name: purge live", _do(purge, ALPHA), Conflict),
    ("name: purge none", _do(purge, "none.example.test"), NotFound),
]
"""Each refusal, or the field that it names."""


def test_a_refusal_names_the_field_and_leaves_no_trace(tmp_path: Path) -> None:
    registry = small_registry(tmp_path)
    before = registry.rows()
    for name, attempt, expected in REFUSED:
        with pytest.raises(Refusal) as raised:
            attempt(registry)
        field = expected if isinstance(expected, str) else ""
        assert raised.type is (ValidationFailed if field else expected), name
        assert [each.field for each in raised.value.errors][:1] == ([field] if field else []), name
        assert raised.value.message.endswith("."), name
        assert registry.rows() == before, name


TWICE: dict[str, Attempt] = {
    "suspend user": _do(suspend_user, ANNA),
    "revoke token": _do(revoke_token, 1),
    "withdraw offer": _do(withdraw_offer, DOMAIN, "plus"),
    "refund": _do(refund_charge, 2, 3),
    "payment": _pay(credits=5, amount="1", currency="EUR"),
    "coupon": _coupon(percent=5),
    "retire coupon": _do(retire_coupon, "half"),
    "retire package": _do(retire_package, 1),
    "suspend name": _do(suspend, ALPHA, "spam"),
}


def test_the_second_time_is_a_conflict_that_leaves_no_trace(tmp_path: Path) -> None:
    registry = small_registry(tmp_path)
    registry.do(issue_token, ANNA, "t")
    registry.do(add_package, "P", 5, "1", "EUR")
    for attempt in TWICE.values():
        attempt(registry)
    before = registry.rows()
    for name, attempt in TWICE.items():
        with pytest.raises(Conflict):
            attempt(registry)
        assert registry.rows() == before, name


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
