import pytest

from sublet.platform_domains.labels import MODES_BY_CLASS, classify
from sublet.platform_domains.model import LABEL_CLASSES, MODES, Label, is_visible
from sublet.structs import replace
from support.rule_domains import rule_domain

DOMAIN = rule_domain()


@pytest.mark.parametrize("hidden", [False, True])
@pytest.mark.parametrize("restricted", [False, True])
@pytest.mark.parametrize("granted", [False, True])
def test_the_users_that_see_a_platform_domain(*, hidden: bool, restricted: bool, granted: bool) -> None:
    platform_domain = replace(DOMAIN, hidden=hidden, restricted=restricted, registration_open=False)
    visible = not hidden and (granted or not restricted)
    assert is_visible(platform_domain, {7} if granted else {8}) is visible


@pytest.mark.parametrize(
    "label", ["www", "mail", "wpad", "isatap", "autodiscover", "localhost", "ns", "ns1", "ns42", "hostmaster"]
)
def test_labels_with_a_protocol_meaning_are_reserved_everywhere(label: str) -> None:
    assert classify(label, DOMAIN, None, 1) == "reserved"
    # Reserved before short: `ns` is not for sale.
    assert classify(label, replace(DOMAIN, premium_length_max=63), None, 1) == "reserved"


@pytest.mark.parametrize(
    ("label", "label_class"),
    [
        ("abc", "premium"),
        ("abcd", "standard"),
        ("xn--dmb", "premium"),  # as people see it, not as it is stored
        ("xn--strae-oqa", "standard"),
    ],
)
def test_short_labels_are_premium_by_the_characters_that_people_see(label: str, label_class: str) -> None:
    assert classify(label, replace(DOMAIN, premium_length_max=3), None, 1) == label_class


@pytest.mark.parametrize("listed_class", LABEL_CLASSES)
@pytest.mark.parametrize("label", ["shop", "www", "ab"])
def test_the_operators_list_has_precedence(label: str, listed_class: str) -> None:
    listed = Label(7, label, listed_class, None, None, organization_ids=(1,))
    assert classify(label, replace(DOMAIN, premium_length_max=2), listed, 1) == listed_class


def test_a_special_label_is_reserved_for_organizations_without_a_grant() -> None:
    listed = Label(7, "shop", "special", None, None, organization_ids=(1, 3))
    assert [classify("shop", DOMAIN, listed, each) for each in (1, 2, 3)] == [
        "special",
        "reserved",
        "special",
    ]
    assert classify("shop", DOMAIN, replace(listed, organization_ids=()), 1) == "reserved"


def test_every_class_of_label_has_its_modes() -> None:
    assert set(MODES_BY_CLASS) == set(LABEL_CLASSES)
    assert [mode for modes in MODES_BY_CLASS.values() for mode in modes] == list(MODES)
