import re
from dataclasses import fields, replace
from pathlib import Path
from typing import Any

import pytest

from sublet.config import (
    CLIENT_VARIABLES,
    DESCRIPTIONS,
    REMOVED_SETTINGS,
    PrimarySettings,
    Settings,
    SettingsError,
    abuse_contact,
    contact_url,
    load_settings,
    operator_address,
    parse_dns_servers,
    parse_listen,
    parse_mail_from,
    parse_nameserver_presets,
)

ROOT = Path(__file__).parents[2]


def _file(folder: Path, text: str) -> Path:
    path = folder / "sublet.toml"
    path.write_text(text, encoding="utf-8")
    return path


def test_every_setting_is_described() -> None:
    assert list(DESCRIPTIONS) == [field.name for field in fields(Settings)]
    assert all(text.endswith(".") for text in DESCRIPTIONS.values())


def test_the_service_listens_on_loopback_by_default() -> None:
    settings = Settings()
    assert parse_listen("http_listen", "[::1]:53") == ("::1", 53)
    assert parse_listen("http_listen", settings.http_listen)[0] == "127.0.0.1"
    assert parse_listen("dns_listen", settings.dns_listen)[0] == "127.0.0.1"


def test_the_environment_precedes_the_file_and_the_file_the_default(tmp_path: Path) -> None:
    path = _file(tmp_path, 'free_quota = 7\nlog_level = "debug"\n')
    settings = load_settings(path, {"SUBLET_FREE_QUOTA": "9", "PATH": "/bin", "NOT_SUBLET_X": "1"})
    assert (settings.free_quota, settings.log_level, settings.log_format) == (9, "debug", "text")


def test_the_file_is_named_by_the_argument_or_the_environment(tmp_path: Path) -> None:
    path = _file(tmp_path, "free_quota = 7\n")
    other = tmp_path / "other.toml"
    other.write_text("free_quota = 8\n", encoding="utf-8")
    assert load_settings(environ={"SUBLET_CONFIG": str(path)}).free_quota == 7
    assert load_settings(other, {"SUBLET_CONFIG": str(path)}).free_quota == 8
    assert load_settings(environ={"SUBLET_CONFIG": ""}).free_quota == 5


@pytest.mark.parametrize("name", ["free_qouta", "FREE_QUOTA", "tls"])
def test_unknown_settings_in_a_file_are_refused_by_name(name: str, tmp_path: Path) -> None:
    with pytest.raises(SettingsError, match=name):
        load_settings(_file(tmp_path, f"{name} = 1\n"), {})


@pytest.mark.parametrize(
    ("settings", "contact", "url"),
    [
        ({}, "", ""),
        ({"site_contact": "hello@example.net"}, "hello@example.net", "mailto:hello@example.net"),
        ({"site_contact": "https://example.net/@us"}, "https://example.net/@us", "https://example.net/@us"),
        (
            {"site_contact": "https://example.net/", "abuse_contact": "abuse@example.net"},
            "abuse@example.net",
            "mailto:abuse@example.net",
        ),
    ],
)
def test_reports_of_abuse_go_to_the_contact_if_there_is_no_address_for_them(
    settings: dict[str, str], contact: str, url: str
) -> None:
    found = abuse_contact(Settings(**settings))  # type: ignore[arg-type] # texts all
    assert (found, contact_url(found)) == (contact, url)


@pytest.mark.parametrize("name", ["site_contact", "abuse_contact", "site_imprint_url", "site_terms_url"])
def test_contacts_and_pages_are_addresses(name: str) -> None:
    """security.txt and the pages show them: a line break would start a field of its own."""
    examples = "/contact or contact@example.net" if name.endswith("_contact") else "/contact"
    for text in (
        "example.net",
        "ftp://example.net/",
        "https:///x",
        "https://a.example/\nExpires: x",
        "a b@c.de",
        "<ops@example.net>",
        "ops@localhost",
        "mailto:ops@example.net",
    ):
        with pytest.raises(SettingsError, match=f"^{name}: .*{examples}.$"):
            Settings(**{name: text})  # type: ignore[arg-type] # a text


@pytest.mark.parametrize(
    ("settings", "address"),
    [
        ({}, ""),
        ({"operator_mail": "ops@example.net"}, "ops@example.net"),
        ({"operator_mail": "öps@bücher.example"}, "öps@bücher.example"),
        ({"site_contact": "hello@example.net"}, "hello@example.net"),
        ({"site_contact": "https://example.net/contact"}, ""),
        ({"site_contact": "https://ada@example.net/contact"}, ""),
        ({"operator_mail": "ops@example.net", "site_contact": "hello@example.net"}, "ops@example.net"),
    ],
)
def test_mail_to_the_operator_falls_back_to_the_contact_if_it_is_an_address(
    settings: dict[str, str], address: str
) -> None:
    assert operator_address(Settings(**settings)) == address  # type: ignore[arg-type] # texts all


@pytest.mark.parametrize(
    ("variable", "meant"),
    [
        ("SUBLET_FREE_QOUTA", "SUBLET_FREE_QUOTA"),
        ("SUBLET_DATABSE_URL", "SUBLET_DATABASE_URL"),
        ("SUBLET_DB_URL", "SUBLET_DATABASE_URL"),
        ("SUBELT_DATABASE_URL", "SUBLET_DATABASE_URL"),
        ("sublet_database_url", "SUBLET_DATABASE_URL"),
        ("SUBLET_CONFIG_FILE", "SUBLET_CONFIG"),
        ("SUBLET_CONF", "SUBLET_CONFIG"),
        ("SUBLET_PRIMRY_KEY_KNOT", "SUBLET_PRIMARY_KEY_NAME"),
        ("SUBLET_TRUSTED_PROXY", "SUBLET_TRUSTED_PROXIES"),
    ],
)
def test_a_misspelt_variable_is_refused_with_a_suggestion(variable: str, meant: str) -> None:
    with pytest.raises(SettingsError) as refused:
        load_settings(environ={variable: "1"}, warn=pytest.fail)
    assert str(refused.value) == f"{variable}: There is no such setting. Use {meant}, or remove it."


@pytest.mark.parametrize("service", ["SUBLET", "SUBLET_DNS_1"])
def test_the_variables_of_kubernetes_are_ignored(service: str) -> None:
    environment = {
        f"{service}_SERVICE_HOST": "10.0.0.1",
        f"{service}_SERVICE_PORT": "8053",
        f"{service}_SERVICE_PORT_HTTP": "8053",
        f"{service}_SERVICE_PORT_DNS_UDP": "53",
        f"{service}_PORT": "tcp://10.0.0.1:8053",
        **{
            f"{service}_PORT_{number}_{protocol}{end}": "1"
            for number, protocol in ((8053, "TCP"), (53, "UDP"), (9, "SCTP"))
            for end in ("", "_PROTO", "_PORT", "_ADDR")
        },
    }
    assert load_settings(environ=environment, warn=pytest.fail) == Settings()


def test_the_variables_of_the_clients_are_ignored() -> None:
    sources = (ROOT / "clients").rglob("*.py")
    names = {
        each for path in sources for each in re.findall(r"SUBLET_[A-Z_]+", path.read_text(encoding="utf-8"))
    }
    assert names == CLIENT_VARIABLES
    assert load_settings(environ=dict.fromkeys(names, "x"), warn=pytest.fail) == Settings()


@pytest.mark.parametrize("variable", ["SUBLET_PORT", "SUBLET_VERSION", "SUBLET_"])
def test_other_unknown_variables_are_warnings(variable: str) -> None:
    warnings: list[str] = []
    assert load_settings(environ={variable: "8053"}, warn=warnings.append) == Settings()
    (warning,) = warnings
    assert warning.startswith(f"{variable}: this is no setting")


def test_variables_of_other_programs_are_ignored() -> None:
    others = ("SUBNET_DNS_SERVERS", "DATABASE_URL", "SUBLETS", "MY_SUBLET_PORT")
    assert load_settings(environ=dict.fromkeys(others, "x"), warn=pytest.fail) == Settings()


def test_all_unknown_settings_and_wrong_types_are_named_at_once(tmp_path: Path) -> None:
    path = _file(tmp_path, 'http_listn = "127.0.0.1:80"\nfree_quota = "many"\nrate_limits = 3\n')
    with pytest.raises(SettingsError) as refused:
        load_settings(path, {})
    first, *others = str(refused.value).splitlines()
    assert first == "http_listn: There is no such setting. Use http_listen, or remove it."
    assert [each.partition(":")[0] for each in others] == ["free_quota", "rate_limits"]


def test_a_setting_below_a_primary_is_told_its_place(tmp_path: Path) -> None:
    path = _file(tmp_path, '[primaries.main]\naddress = "192.0.2.53"\nsignup = "open"\n')
    with pytest.raises(SettingsError, match="Write signup above the first table"):
        load_settings(path, {})


@pytest.mark.parametrize("name", REMOVED_SETTINGS)
def test_a_removed_setting_is_a_warning_for_any_value(name: str, tmp_path: Path) -> None:
    path = _file(tmp_path, f"{name} = 1\n")
    for environment in ({}, {f"SUBLET_{name.upper()}": "no"}):
        warnings: list[str] = []
        assert load_settings(path, environment, warn=warnings.append) == Settings()
        assert [each.partition(":")[0] for each in warnings] == [name]


@pytest.mark.parametrize(
    ("name", "value"),
    [
        ("FREE_QUOTA", "-1"),
        ("RATE_LIMIT_READ_PER_MINUTE", "0"),
        ("FREE_QUOTA", "five"),
        ("FREE_QUOTA", "9" * 5000),
        ("RATE_LIMIT_READ_PER_MINUTE", "9999999999"),
        ("NEW_USER_DAYS", "9999999"),
        ("FREE_QUOTA", "\u0665"),
        ("RATE_LIMITS", ""),
        ("LOG_FORMAT", "xml"),
        ("DATABASE_MAY_LOSE_WRITES", "maybe"),
        ("DATABASE_URL", ""),
        ("DATABASE_URL", "mysql://x"),
        ("HTTP_CONNECTIONS_MAX", "0"),
        ("HTTP_LISTEN", "8053"),
        ("HTTP_LISTEN", f"127.0.0.1:{'9' * 5000}"),
        ("DNS_LISTEN", "127.0.0.1:65536"),
        ("PUBLIC_URL", "names.example.net"),
        ("PUBLIC_URL", "https://names.example.net/api/v1"),
        ("PUBLIC_URL", "https://names.example.net/?page=1"),
        ("PUBLIC_URL", "https://["),
        ("PUBLIC_URL", "http://::1:8053"),
        ("SITE_IMPRINT_URL", "https://names.example.net:99999/"),
        ("MAIL_TRANSPORT", "sendmail"),
        ("OPERATOR_MAIL", "ops"),
        ("OPERATOR_MAIL", "Ops <ops@example.net>"),
        ("OPERATOR_MAIL", "a@b@c"),
        ("MAIL_FROM", "names@example.net\nBcc: eve@example.com"),
        ("MAIL_FROM", "a@example.net, b@example.net"),
        ("MAIL_FROM", "ädä@example.net"),
        ("MAIL_FROM", "Names names@example.net"),
        ("SMTP_HOST", "smtp://mail.example.net"),
        ("SMTP_HOST", "mail.example.net:587"),
        ("SMTP_HOST", "::1:587x"),
        ("SMTP_PORT", "0"),
        ("SMTP_SECURITY", "ssl"),
        ("WORKER_STATUS_LISTEN", "9053"),
        ("DNS_STATUS_LISTEN", "9053"),
        ("DNS_ADDRESSES", "192.0.2.53, ns1.example.test"),
        ("DNS_ADDRESSES", "fe80::53%eth0"),
        ("TRUSTED_PROXIES", "10.0.0.0/8"),
        ("NAMESERVER_PRESETS", "ns1.provider.example"),
        ("NAMESERVER_PRESETS", ": ns1.provider.example"),
        ("SITE_LOGO", "/\0.svg"),
    ],
)
def test_invalid_values_are_refused_by_name(name: str, value: str) -> None:
    with pytest.raises(SettingsError, match=f"^{name.lower()}: "):
        load_settings(environ={f"SUBLET_{name}": value})


@pytest.mark.parametrize(
    "line", ["free_quota = true", "free_quota = 1.5", "free_quota = -1", "log_level = 1", "rate_limits = 1"]
)
def test_values_of_another_type_in_a_file_are_refused_by_name(line: str, tmp_path: Path) -> None:
    with pytest.raises(SettingsError, match=f"^{line.partition(' ')[0]}: "):
        load_settings(_file(tmp_path, line), {})


def test_a_file_may_begin_with_a_byte_order_mark(tmp_path: Path) -> None:
    assert load_settings(_file(tmp_path, "\ufefffree_quota = 7\n"), {}).free_quota == 7


@pytest.mark.parametrize(
    "content", [b"free_quota = ", b"free_quota = " + 5000 * b"9", b"\xff\xfe", b"[free_quota]\n[free_quota]"]
)
def test_a_file_that_can_t_be_read_is_refused_by_its_path(content: bytes, tmp_path: Path) -> None:
    path = tmp_path / "sublet.toml"
    path.write_bytes(content)
    with pytest.raises(SettingsError, match=r"sublet\.toml"):
        load_settings(path, {})
    with pytest.raises(SettingsError, match=r"missing\.toml"):
        load_settings(tmp_path / "missing.toml", {})


def test_a_file_in_another_encoding_is_told_so(tmp_path: Path) -> None:
    path = tmp_path / "sublet.toml"
    path.write_bytes(b'site_name = "Caf\xe9"')
    with pytest.raises(SettingsError, match="is not a text in UTF-8"):
        load_settings(path, {})


@pytest.mark.parametrize(("text", "expected"), [("true", True), ("on", True), ("no", False)])
def test_booleans(text: str, *, expected: bool, tmp_path: Path) -> None:
    for name in ("rate_limits", "database_may_lose_writes"):
        assert getattr(load_settings(environ={f"SUBLET_{name.upper()}": text}), name) is expected
        assert getattr(load_settings(_file(tmp_path, f'{name} = "{text}"'), {}), name) is expected
        assert (
            getattr(load_settings(_file(tmp_path, f"{name} = {str(expected).lower()}"), {}), name) is expected
        )


def test_presets_are_names_with_their_hosts() -> None:
    text = "192.0.2.1, 2001:db8::1,"
    assert load_settings(None, {"SUBLET_TRUSTED_PROXIES": text}).trusted_proxies == text
    assert parse_nameserver_presets("One & Co: ns1.one.example ns2.one.example, Two: ns.two.example") == (
        ("One & Co", ("ns1.one.example", "ns2.one.example")),
        ("Two", ("ns.two.example",)),
    )


@pytest.mark.parametrize(
    ("text", "name", "address"),
    [
        ("names@example.net", "", "names@example.net"),
        ("Example Names <names@example.net>", "Example Names", "names@example.net"),
        ('"Names, Inc." <names@example.net>', "Names, Inc.", "names@example.net"),
        ("Über Namen <names@example.net>", "Über Namen", "names@example.net"),
        ("names@localhost", "", "names@localhost"),
        (" names@example.net ", "", "names@example.net"),
    ],
)
def test_senders(text: str, name: str, address: str) -> None:
    assert parse_mail_from(text) == (name, address)


SMTP = {"mail_transport": "smtp", "mail_from": "names@example.net", "smtp_host": "mail.example.net"}


@pytest.mark.parametrize(
    ("changed", "sentence"),
    [
        ({"smtp_host": ""}, "smtp_host: required"),
        ({"mail_from": ""}, "mail_from: required"),
        ({"mail_from": "", "smtp_host": ""}, "^smtp_host and mail_from: required"),
        ({"smtp_username": "ada"}, "Give both, or neither"),
        ({"smtp_password_file": "/etc/password"}, "Give both, or neither"),
        (
            {"smtp_username": "ada", "smtp_password_file": "/etc/password", "smtp_security": "none"},
            "a password is never sent unencrypted",
        ),
    ],
)
def test_missing_mail_settings_are_refused(changed: dict[str, Any], sentence: str) -> None:
    Settings(**{**SMTP, "smtp_port": 25})  # type: ignore[arg-type] # texts, and a number
    with pytest.raises(SettingsError, match=sentence):
        Settings(**{**SMTP, **changed})


@pytest.mark.parametrize("key_name", ["", ".", "key..name", "k" * 64, "schlüssel", ".".join(["k" * 60] * 5)])
def test_a_key_without_a_valid_name_is_refused(key_name: str) -> None:
    assert PrimarySettings("main", "192.0.2.1", "Key_1.example.").key_name == "Key_1.example."
    with pytest.raises(SettingsError, match=r"^primaries\.main\.key_name: "):
        PrimarySettings("main", "192.0.2.1", key_name)


def test_primaries_with_one_variable_for_two_secrets_are_refused() -> None:
    one, other = PrimarySettings("a-b", "192.0.2.1", "k"), PrimarySettings("a.b", "192.0.2.2", "k")
    with pytest.raises(
        SettingsError, match=r"^primaries: a-b and a\.b have the same variable SUBLET_PRIMARY_KEY_A_B\."
    ):
        Settings(primaries=(one, other))
    Settings(primaries=(one, replace(other, key_file="/etc/key")))


def test_the_built_in_name_servers_are_addresses_with_ports() -> None:
    assert parse_dns_servers("") == ()
    assert parse_dns_servers("192.0.2.53:53, [2001:db8::53]:5300,") == (
        ("192.0.2.53", 53),
        ("2001:db8::53", 5300),
    )


@pytest.mark.parametrize("text", ["192.0.2.53", "ns1.example.net:53", "192.0.2.53:0"])
def test_invalid_addresses_of_name_servers_are_refused(text: str) -> None:
    with pytest.raises(SettingsError, match="dns_servers"):
        Settings(dns_servers=text)


def test_a_long_value_is_cut_off_in_a_message() -> None:
    for name, value in {
        "public_url": "x" * 70_000,
        "smtp_port": "1" * 70_000,
        "log_format": "\0" * 99,
    }.items():
        with pytest.raises(SettingsError) as refused:
            load_settings(None, {f"SUBLET_{name.upper()}": value})
        assert len(str(refused.value)) < 200
