"""Settings that are lists of addresses: what is no address is refused at the start, by the setting's name."""

import pytest

from sublet.config import SettingsError, load_settings


@pytest.mark.parametrize(
    ("name", "text"),
    [("dns_addresses", "192.0.2.53, ns1.example.test"), ("trusted_proxies", "10.0.0.0/8")],
)
def test_what_is_no_address_is_refused_by_name(name: str, text: str) -> None:
    with pytest.raises(SettingsError, match=name):
        load_settings(None, {f"SUBLET_{name.upper()}": text})


def test_several_addresses_may_be_given() -> None:
    text = "192.0.2.1, 2001:db8::1,"
    assert load_settings(None, {"SUBLET_TRUSTED_PROXIES": text}).trusted_proxies == text
