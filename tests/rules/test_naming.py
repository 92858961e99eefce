import pytest
from hypothesis import given
from hypothesis import strategies as st

from sublet.errors import FieldError
from sublet.platform_domains.model import PlatformDomain
from sublet.structs import replace
from sublet.subdomains.model import Register
from sublet.subdomains.naming import canonical_domain, label_of, resolve_for_operator
from support.rule_domains import rule_domain

DOMAIN = rule_domain()


def asked_for(
    *, label: str | None = None, fqdn: str | None = None, platform_domain: PlatformDomain | None = DOMAIN
) -> tuple[str | None, list[FieldError]]:
    canonical = canonical_domain(fqdn) if fqdn is not None else None
    return label_of(Register(label=label, fqdn=fqdn), canonical, platform_domain)


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
def test_a_label_is_taken_from_label_or_fqdn_in_any_form(
    label: str | None, fqdn: str | None, meant: str
) -> None:
    assert asked_for(label=label, fqdn=fqdn) == (meant, [])


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
def test_errors_of_a_requested_name(
    label: str | None, fqdn: str | None, errors: list[tuple[str, str]]
) -> None:
    _, found = asked_for(label=label, fqdn=fqdn)
    assert [(each.field, each.code) for each in found] == errors


@pytest.mark.parametrize(
    "fqdn", ["a_b.example.test", "a_b.Example.TEST.", "a_b\u3002example\uff0etest", "a_b\uff61example.test"]
)
def test_an_invalid_label_is_found_before_the_platform_domain_in_any_form(fqdn: str) -> None:
    asked = Register(fqdn=fqdn)
    found, label, (error,) = resolve_for_operator(asked, [DOMAIN])
    assert (found, label, error.code) == (DOMAIN, None, "label_invalid")
    assert error.message.startswith("`a_b` contains `_`")


@pytest.mark.parametrize(("label", "fqdn", "field"), [("é", None, "label"), (None, "é.example.test", "fqdn")])
def test_an_idn_needs_a_platform_domain_that_accepts_idns(
    label: str | None, fqdn: str | None, field: str
) -> None:
    assert asked_for(label=label, fqdn=fqdn)[1] == []
    ascii_only = replace(DOMAIN, idn=False)
    _, errors = asked_for(label=label, fqdn=fqdn, platform_domain=ascii_only)
    assert [(each.field, each.code) for each in errors] == [(field, "label_invalid")]


@pytest.mark.parametrize(
    ("label", "short"), [("ab", True), ("abc", False), ("éé", True), ("ééé", False), ("xn--dmb", True)]
)
def test_the_shortest_length_counts_unicode_characters(*, label: str, short: bool) -> None:
    _, errors = asked_for(label=label, platform_domain=replace(DOMAIN, label_length_min=3))
    assert [each.code for each in errors] == (["label_too_short"] if short else [])


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
def test_the_canonical_form_of_a_domain_name(text: str, canonical: str | None) -> None:
    assert canonical_domain(text) == canonical


@given(st.text(max_size=80), st.none() | st.text(max_size=80))
def test_any_text_gives_a_valid_label_or_errors(label: str, fqdn: str | None) -> None:
    meant, errors = asked_for(label=label, fqdn=fqdn)
    assert errors or (
        meant is not None and canonical_domain(f"{meant}.example.test") == f"{meant}.example.test"
    )
    assert meant is not None or errors
