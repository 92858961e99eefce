"""Settings: the environment wins over the file, and what is unknown or of no good value is refused by name."""

from pathlib import Path

import pytest

from sublet.config import Settings, SettingsError, load_settings


def test_without_anything_the_defaults_hold() -> None:
    assert load_settings(None, {}) == Settings()


def test_the_environment_wins_over_the_file(tmp_path: Path) -> None:
    file = tmp_path / "sublet.toml"
    file.write_text('free_quota = 3\nlog_format = "json"\n')
    found = load_settings(None, {"SUBLET_CONFIG": str(file), "SUBLET_FREE_QUOTA": "7", "HOME": "/"})
    assert (found.free_quota, found.log_format) == (7, "json")


@pytest.mark.parametrize(
    ("name", "text"),
    [
        ("frobnicate", "1"),
        ("database_url", "mysql://host/name"),
        ("http_listen", "8053"),
        ("dns_listen", "127.0.0.1:65536"),
        ("free_quota", "-1"),
        ("free_quota", "five"),
        ("rate_limits", "yes"),
        ("log_format", "xml"),
        ("log_level", "loud"),
        ("dns_addresses", "192.0.2.53, ns1.example.test"),
        ("trusted_proxies", "10.0.0.0/8"),
    ],
)
def test_what_is_of_no_good_value_is_refused_by_name(name: str, text: str) -> None:
    with pytest.raises(SettingsError, match=name):
        load_settings(None, {f"SUBLET_{name.upper()}": text})


def test_a_file_with_an_unknown_setting_is_refused(tmp_path: Path) -> None:
    file = tmp_path / "sublet.toml"
    file.write_text("free_quotas = 3\n")
    with pytest.raises(SettingsError, match="free_quotas"):
        load_settings(file, {})


def test_several_addresses_may_be_given() -> None:
    text = "192.0.2.1, 2001:db8::1,"
    assert load_settings(None, {"SUBLET_TRUSTED_PROXIES": text}).trusted_proxies == text
