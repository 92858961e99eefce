from typing import Any

import pytest

from sublet.platform_domains.model import SETTINGS, PlatformDomain, default_settings
from sublet.platform_domains.settings import check_settings
from sublet.platform_domains.store import platform_domains

DEFAULTS = default_settings("example.test")
LIMITS = {name: each.limits for name, each in SETTINGS.items() if each.limits is not None}


def wrong_fields(**changes: Any) -> set[str]:
    _, errors = check_settings({**DEFAULTS, **changes})
    return {each.field for each in errors}


def test_every_field_of_a_platform_domain_is_a_setting_or_set_by_the_registry() -> None:
    own = {"id", "domain", "created_at", "updated_at", "names_until"}
    assert {*SETTINGS, *own} == set(PlatformDomain.__struct_fields__)
    assert {*SETTINGS, *own, "owner_key", "redate_after_id", "removed_at"} == set(platform_domains.c.keys())


def test_the_defaults_are_valid_and_canonical() -> None:
    assert check_settings(DEFAULTS) == (DEFAULTS, [])


@pytest.mark.parametrize("name", LIMITS)
def test_numbers_are_valid_up_to_their_limits(name: str) -> None:
    least, most = LIMITS[name]
    others = {"nameservers_min": 1, "nameservers_max": 13}
    assert wrong_fields(**{**others, name: least}) == wrong_fields(**{**others, name: most}) == set()
    assert name in wrong_fields(**{**others, name: least - 1})
    assert name in wrong_fields(**{**others, name: most + 1})
