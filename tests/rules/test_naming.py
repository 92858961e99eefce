from datetime import UTC, datetime

import pytest
from hypothesis import given
from hypothesis import strategies as st
from msgspec import structs

from sublet.platform_domains.model import PlatformDomain, default_settings
from sublet.subdomains.model import Register
from sublet.subdomains.naming import canonical_domain, label_of

NOW = datetime(2026, 11, 21, 9, 30, tzinfo=UTC)
DOMAIN = PlatformDomain(
    id=7, domain="example.test", created_at=NOW, updated_at=NOW, **default_settings("example.test")
)


@pytest.mark.parametrize(
    ("label", "fqdn", "meant"),
    [
        ("shop", None, "shop"),
        ("SHOP", None, "shop"),
        (None, "shop.example.test", "shop"),
        (None, "Shop.Example.TEST.", "shop"),
        ("shop", "SHOP.example.test", "shop"),
        ("straße", None, "xn--strae-oqa"),
        ("XN--STRAE-OQA", "straße.example.test", "xn--strae-oqa"),
    ],
)
def test_label_and_fqdn_in_any_form_mean_one_label(label: str | None, fqdn: str | None, meant: str) -> None:
    assert label_of(Register(label=label, fqdn=fqdn), DOMAIN) == (meant, [])


@pytest.mark.parametrize(
    ("label", "fqdn", "errors"),
    [
        (None, None, [("label", "label_required")]),
        (None, "example.test", [("fqdn", "label_required")]),
        ("a.b", None, [("label", "label_invalid")]),
        ("-a", None, [("label", "label_invalid")]),
        ("", None, [("label", "label_invalid")]),
        ("a b", None, [("label", "label_invalid")]),
        ("a" * 64, None, [("label", "label_invalid")]),
        (None, "-a.example.test", [("fqdn", "label_invalid")]),
        (None, "a.b.example.test", [("fqdn", "label_invalid")]),
        (None, "shop.example.org", [("fqdn", "fqdn_mismatch")]),
        (None, "shopexample.test", [("fqdn", "fqdn_mismatch")]),
        ("shop", "other.example.test", [("fqdn", "fqdn_mismatch")]),
        ("shop", "shop.example.org", [("fqdn", "fqdn_mismatch")]),
        ("a_b", "shop.example.org", [("label", "label_invalid"), ("fqdn", "fqdn_mismatch")]),
    ],
)
def test_why_a_name_is_none(label: str | None, fqdn: str | None, errors: list[tuple[str, str]]) -> None:
    _, found = label_of(Register(label=label, fqdn=fqdn), DOMAIN)
    assert [(each.field, each.code) for each in found] == errors


@pytest.mark.parametrize(("label", "fqdn", "field"), [("é", None, "label"), (None, "é.example.test", "fqdn")])
def test_idn_only_where_the_platform_domain_takes_it(label: str | None, fqdn: str | None, field: str) -> None:
    command = Register(label=label, fqdn=fqdn)
    assert label_of(command, DOMAIN)[1] == []
    _, errors = label_of(command, structs.replace(DOMAIN, idn=False))
    assert [(each.field, each.code) for each in errors] == [(field, "label_invalid")]


@pytest.mark.parametrize(
    ("label", "short"), [("ab", True), ("abc", False), ("éé", True), ("ééé", False), ("xn--dmb", True)]
)
def test_lengths_count_the_characters_that_people_see(*, label: str, short: bool) -> None:
    _, errors = label_of(Register(label=label), structs.replace(DOMAIN, label_length_min=3))
    assert [each.code for each in errors] == (["label_too_short"] if short else [])


def test_without_a_platform_domain_the_label_itself_is_checked() -> None:
    assert label_of(Register(label="Shop"), None) == ("shop", [])
    assert [each.code for each in label_of(Register(label="-"), None)[1]] == ["label_invalid"]
    assert [each.code for each in label_of(Register(), None)[1]] == ["label_required"]


@pytest.mark.parametrize(
    ("text", "canonical"),
    [
        ("Example.TEST.", "example.test"),
        ("Straße.example.test", "xn--strae-oqa.example.test"),
        ("a..b", None),
        ("", None),
        (".", None),
        ("a b.test", None),
        ("a.test\n", None),
        ("192.0.2.1", None),
    ],
)
def test_names_in_their_stored_form(text: str, canonical: str | None) -> None:
    assert canonical_domain(text) == canonical


@given(st.text(max_size=80), st.none() | st.text(max_size=80))
def test_whatever_is_asked_for_is_a_good_label_or_has_errors(label: str, fqdn: str | None) -> None:
    meant, errors = label_of(Register(label=label, fqdn=fqdn), DOMAIN)
    assert errors or (
        meant is not None and canonical_domain(f"{meant}.example.test") == f"{meant}.example.test"
    )
    assert meant is not None or errors
