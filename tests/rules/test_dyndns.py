"""The rules of dyndns2: hosts, addresses, and the word for each refusal."""

import pytest

from sublet import errors
from sublet.dns.types import RecordSet
from sublet.subdomains.records.dyndns import (
    HOSTS_MAX,
    InvalidUpdate,
    Update,
    parse_addresses,
    parse_hosts,
    word_of,
)

V4, V6 = "8.8.4.4", "2001:4860:4860::8844"


@pytest.mark.parametrize(
    ("text", "hosts"),
    [
        ("Home.Example.net.", ["home.example.net"]),
        ("b.example.net, a.example.net", ["b.example.net", "a.example.net"]),
        ("*.example.net", ["*.example.net"]),
        ("bücher.example.net", ["xn--bcher-kva.example.net"]),
        (",".join(["a.example"] * HOSTS_MAX), ["a.example"] * HOSTS_MAX),
    ],
)
def test_hosts(text: str, hosts: list[str]) -> None:
    assert parse_hosts(text) == hosts


@pytest.mark.parametrize(
    ("text", "word"),
    [
        ("", "notfqdn"),
        ("home", "notfqdn"),
        ("*", "notfqdn"),
        ("*.example", "notfqdn"),
        ("a.example,", "notfqdn"),
        ("a.*.example", "notfqdn"),
        (f"{'a' * 64}.example", "notfqdn"),
        ("a..example", "notfqdn"),
        (f"*.{'a.' * 123}example", "notfqdn"),
        (",".join(["a.example"] * (HOSTS_MAX + 1)), "numhost"),
        ("," * 100_000, "numhost"),
    ],
)
def test_wrong_hosts(text: str, word: str) -> None:
    with pytest.raises(InvalidUpdate, match=f"^{word}$"):
        parse_hosts(text)


@pytest.mark.parametrize(
    ("sent", "client", "addresses"),
    [
        (["", ""], V4, {"A": V4}),
        ([], V6 + "%eth0", {"AAAA": V6}),
        ([f" {V4} , "], "::1", {"A": V4}),
        ([f"{V6},{V4}"], "::1", {"A": V4, "AAAA": V6}),
        ([V4, V6.upper()], "::1", {"A": V4, "AAAA": V6}),
        ([V4, V4], "::1", {"A": V4}),
        ([], f"::ffff:{V4}", {"A": V4}),
    ],
)
def test_addresses(sent: list[str], client: str, addresses: dict[str, str]) -> None:
    assert parse_addresses(sent, client) == addresses


@pytest.mark.parametrize(
    "sent", ["auto", "8.8.4.4/32", "08.8.4.4", f"{V4},8.8.8.8", f"{V4};{V6}", "1" * 9999]
)
def test_wrong_addresses(sent: str) -> None:
    with pytest.raises(InvalidUpdate, match=r"^dnserr$"):  # of an unknown client
        parse_addresses([], "")
    with pytest.raises(InvalidUpdate, match=r"^dnserr$"):
        parse_addresses([sent], V4)


@pytest.mark.parametrize(
    ("refusal", "of_host", "of_request"),
    [
        (errors.TokenInvalid, "badauth", "badauth"),
        (errors.TokenMissing, "badauth", "badauth"),
        (errors.InsufficientScope, "badauth", "badauth"),
        (errors.InsufficientRole, "badauth", "badauth"),
        (errors.TokenRestricted, "nohost", "badauth"),
        (errors.SubdomainNotFound, "nohost", "dnserr"),
        (errors.DelegationExists, "nohost", "dnserr"),
        (errors.RecordsNotAllowed, "nohost", "badauth"),
        (errors.AccountSuspended, "abuse", "abuse"),
        (errors.SubdomainSuspended, "abuse", "abuse"),
        (errors.RateLimited, "abuse", "abuse"),
        (errors.ValidationFailed, "dnserr", "dnserr"),
        (errors.UriTooLong, "dnserr", "dnserr"),
        (errors.Unavailable, "911", "911"),
        (errors.InternalError, "911", "911"),
    ],
)
def test_the_word_of_a_refusal(refusal: type[errors.Refusal], of_host: str, of_request: str) -> None:
    assert word_of(refusal("x"), of_host=True) == of_host
    assert word_of(refusal("x"), of_host=False) == of_request


def test_only_the_same_addresses_are_stored() -> None:
    update = Update(
        "a.example", "@", [RecordSet("@", "A", 900, (V4,)), RecordSet("@", "AAAA", 60, (V6, "::2"))]
    )
    assert update.is_stored({"A": V4})
    assert not update.is_stored({"A": "8.8.8.8"})
    assert not update.is_stored({"A": V4, "AAAA": V6})
    assert [each["ttl"] for each in update.members({"A": V4})] == [900]
    assert [each["ttl"] for each in Update("a.example", "@").members({"A": V4})] == [60]
