from collections.abc import Sequence
from itertools import pairwise

import pytest
from hypothesis import given
from hypothesis import strategies as st

from sublet.dns.delegation import (
    check_delegation,
    delegation_warnings,
    find_nameserver_cycle,
    prune_glue,
    without_nameservers,
)
from sublet.dns.types import Delegation, Dnskey, DsLike, DsRecord, GlueEntry

OWNER = "foo.example.test"
ELSEWHERE = ("ns1.dns.example", "ns2.dns.example")
SHA256 = "ab" * 32


def check(
    nameservers: Sequence[str] = (),
    glue: Sequence[GlueEntry] = (),
    ds_records: Sequence[DsLike] = (),
    *,
    nameservers_min: int = 1,
    nameservers_max: int = 13,
) -> tuple[Delegation, list[tuple[str, str]]]:
    delegation, errors = check_delegation(
        OWNER, nameservers, glue, ds_records, nameservers_min=nameservers_min, nameservers_max=nameservers_max
    )
    for error in errors:
        assert error.message.endswith(".")
        error.message.encode()
    return delegation, [(error.field, error.code) for error in errors]


GOOD: list[tuple[Sequence[str], Sequence[GlueEntry], Sequence[DsLike], Delegation]] = [
    ((), (), (), Delegation()),
    (("NS2.dns.example.", "ns1.DNS.example"), (), (), Delegation(("ns2.dns.example", "ns1.dns.example"))),
    (
        ("ns1.foo.example.test",),
        (GlueEntry("NS1.Foo.example.test.", "8.8.8.8"),),
        (),
        Delegation(("ns1.foo.example.test",), (GlueEntry("ns1.foo.example.test", "8.8.8.8"),)),
    ),
    (
        (OWNER, "ns1.dns.example"),
        (GlueEntry(OWNER, None, "2A00:1450::1"),),
        (),
        Delegation((OWNER, "ns1.dns.example"), (GlueEntry(OWNER, None, "2a00:1450::1"),)),
    ),
    (  # of a sibling, so it isn't glue
        ("ns1.bar.example.test", "ns1.xfoo.example.test"),
        (),
        (),
        Delegation(("ns1.bar.example.test", "ns1.xfoo.example.test")),
    ),
    (  # the same host again: merged; then more addresses of a family: kept apart
        ("b.foo.example.test", "a.foo.example.test"),
        (
            GlueEntry("a.foo.example.test", "1.1.1.1"),
            GlueEntry("a.foo.example.test", None, "2606:4700::1111"),
            GlueEntry("b.foo.example.test", "8.8.8.8"),
            GlueEntry("B.foo.example.test", "8.8.8.8"),
            GlueEntry("b.foo.example.test", "8.8.4.4", "64:ff9b::8.8.8.8"),
        ),
        (),
        Delegation(
            ("b.foo.example.test", "a.foo.example.test"),
            (
                GlueEntry("b.foo.example.test", "8.8.8.8", "64:ff9b::808:808"),
                GlueEntry("b.foo.example.test", "8.8.4.4"),
                GlueEntry("a.foo.example.test", "1.1.1.1", "2606:4700::1111"),
            ),
        ),
    ),
    (
        ELSEWHERE,
        (),
        (DsRecord(1, 13, 2, SHA256.upper()), f"1 13 2 {SHA256}", f"foo.example.test. IN DS 2 8 2 {SHA256}"),
        Delegation(ELSEWHERE, (), (DsRecord(1, 13, 2, SHA256), DsRecord(2, 8, 2, SHA256))),
    ),
    (
        ELSEWHERE,
        (),
        [f"{tag % 8} 13 2 {SHA256}" for tag in range(16)],
        Delegation(ELSEWHERE, (), tuple(DsRecord(tag, 13, 2, SHA256) for tag in range(8))),
    ),
    (
        tuple(f"ns{n}.dns.example" for n in range(13)),
        (),
        (),
        Delegation(tuple(f"ns{n}.dns.example" for n in range(13))),
    ),
]


@pytest.mark.parametrize(("nameservers", "glue", "ds_records", "delegation"), GOOD)
def test_valid_delegations(
    nameservers: Sequence[str],
    glue: Sequence[GlueEntry],
    ds_records: Sequence[DsLike],
    delegation: Delegation,
) -> None:
    assert check(nameservers, glue, ds_records) == (delegation, [])
    again = check(
        delegation.nameservers,
        [GlueEntry(entry.host, entry.ipv4, entry.ipv6) for entry in delegation.glue],
        [DsRecord(ds.key_tag, ds.algorithm, ds.digest_type, ds.digest) for ds in delegation.ds_records],
    )
    assert again == (delegation, [])


NS = "ns1.foo.example.test"


PRIVATE = GlueEntry(NS, "8.8.8.8", "64:ff9b::10.0.0.1")
HOSTS: dict[str, tuple[Sequence[str], str]] = {
    "no name": (("ns1.dns.example", "ns1"), "nameservers[1] nameserver_invalid"),
    "newline": (("ns1.dns.example\n",), "nameservers[0] nameserver_invalid"),
    "escape": ((r"ns1\.dns.example",), "nameservers[0] nameserver_invalid"),
    "apex": (("@",), "nameservers[0] nameserver_invalid"),
    "address": (("2a00::1",), "nameservers[0] nameserver_invalid"),
    "twice": (("ns1.dns.example", "NS1.DNS.example."), "nameservers[1] nameserver_duplicate"),
    "twice in Unicode": (
        ("a.bücher.example", "a.xn--bcher-kva.example"),
        "nameservers[1] nameserver_duplicate",
    ),
    "too many": ([f"ns{n}.dns.example" for n in range(14)], "nameservers too_many_nameservers"),
    "inside": (("ns1.dns.example", NS), "nameservers[1] glue_required"),
    "itself": ((OWNER,), "nameservers[0] glue_required"),
}
GLUE: dict[str, tuple[Sequence[str], Sequence[GlueEntry], str]] = {
    "outside": (ELSEWHERE, (GlueEntry("ns1.dns.example", "8.8.8.8"),), "glue[0].host glue_not_allowed"),
    "of a sibling": (("a.test",), (GlueEntry("a.test", "8.8.8.8"),), "glue[0].host glue_not_allowed"),
    "of the parent": (ELSEWHERE, (GlueEntry("example.test", "8.8.8.8"),), "glue[0].host glue_not_allowed"),
    "no nameserver": (ELSEWHERE, (GlueEntry(NS, "8.8.8.8"),), "glue[0].host glue_not_allowed"),
    "alone": ((), (GlueEntry(NS, "8.8.8.8"),), "glue[0].host glue_not_allowed"),
    "of no name": (ELSEWHERE, (GlueEntry("*", "8.8.8.8"),), "glue[0].host nameserver_invalid"),
    "without address": ((NS,), (GlueEntry(NS),), "glue[0] glue_invalid"),
    "no IPv4": ((NS,), (GlueEntry(NS, "08.8.8.8"),), "glue[0].ipv4 glue_invalid"),
    "empty": ((NS,), (GlueEntry(NS, ""),), "glue[0].ipv4 glue_invalid"),
    "zone id": ((NS,), (GlueEntry(NS, None, "fe80::1%eth0"),), "glue[0].ipv6 glue_invalid"),
    "private": ((NS,), (GlueEntry(NS, "10.0.0.1"),), "glue[0].ipv4 glue_not_public"),
    "one of two": ((NS,), (PRIVATE,), "glue[0].ipv6 glue_not_public"),
    "too many": ((NS,), [GlueEntry(NS, f"8.8.8.{n}") for n in range(9)], "glue glue_invalid"),
    "of a typing error": (
        ("ns1,foo.example.test",),
        (GlueEntry(NS, "8.8.8.8"),),
        "nameservers[0] nameserver_invalid",
    ),
}
DS: list[tuple[Sequence[str], Sequence[DsLike], str]] = [
    (ELSEWHERE, ("nonsense",), "ds_records[0] ds_invalid"),
    (ELSEWHERE, (DsRecord(1, 13, 2, "ab"),), "ds_records[0].digest ds_invalid"),
    (ELSEWHERE, (Dnskey(257, 3, 13, "AA=="),), "ds_records[0].public_key ds_invalid"),
    ((), (f"1 13 2 {SHA256}",), "ds_records ds_without_nameservers"),
    (ELSEWHERE, [f"{tag} 13 2 {SHA256}" for tag in range(9)], "ds_records too_many_ds_records"),
]


def test_invalid_delegations() -> None:
    bad: list[tuple[Sequence[str], Sequence[GlueEntry], Sequence[DsLike], str]] = []
    bad += [(hosts, (), (), code) for hosts, code in HOSTS.values()]
    bad += [(hosts, glue, (), code) for hosts, glue, code in GLUE.values()]
    bad += [(hosts, (), ds_records, code) for hosts, ds_records, code in DS]
    for nameservers, glue, ds_records, expected in bad:
        assert [" ".join(each) for each in check(nameservers, glue, ds_records)[1]] == [expected]


def test_every_reason_is_reported_at_once() -> None:
    errors = check(
        ("ns1", NS, NS, "ns1.dns.example", "ns2.foo.example.test"),
        (GlueEntry("ns1.dns.example", "10.0.0.1", "::1"), GlueEntry(NS, "1.2.3"), GlueEntry(NS)),
        ("x", DsRecord(-1, 13, 2, SHA256)),
    )[1]
    assert errors == [
        ("nameservers[0]", "nameserver_invalid"),
        ("nameservers[2]", "nameserver_duplicate"),
        ("glue[0].host", "glue_not_allowed"),
        ("glue[0].ipv4", "glue_not_public"),
        ("glue[0].ipv6", "glue_not_public"),
        ("glue[1].ipv4", "glue_invalid"),
        ("glue[2]", "glue_invalid"),
        ("nameservers[4]", "glue_required"),
        ("ds_records[0]", "ds_invalid"),
        ("ds_records[1].key_tag", "ds_invalid"),
    ]


def test_only_the_first_items_of_a_long_list_are_checked_but_all_are_counted() -> None:
    ds_records = [f"{tag} 13 2 {'ab' * 32}" for tag in range(500)]
    glue = [GlueEntry("ns.elsewhere.example", "8.8.8.8")] * 500
    _, errors = check_delegation(OWNER, ["-"] * 500, glue, ds_records, nameservers_min=1, nameservers_max=13)
    counted = {each.code: each.message for each in errors}
    assert counted["too_many_nameservers"].startswith("500 nameservers are too many")
    assert counted["too_many_ds_records"].startswith("500 DS records are too many")
    assert counted["glue_invalid"].startswith("500 glue entries are too many. Give at most 104")
    of_hosts = [each for each in errors if each.code == "nameserver_invalid"]
    assert (len(of_hosts), of_hosts[-1].field) == (64, "nameservers[63]")
    assert len(errors) == 64 + 104 + 3


def test_the_platform_domains_limits() -> None:
    assert check(ELSEWHERE[:1], nameservers_min=2)[1] == [("nameservers", "too_few_nameservers")]
    assert check((), nameservers_min=2)[1] == []
    assert check(ELSEWHERE, nameservers_min=2, nameservers_max=2)[1] == []
    assert check(ELSEWHERE, nameservers_max=1)[1] == [("nameservers", "too_many_nameservers")]


TEXTS = st.sampled_from(
    [NS, OWNER, "ns1.dns.example", "ns1", "", "8.8.8.8", "10.0.0.1", "::1", "2a00::1", "\ud800", "a\n.b"]
) | st.text(max_size=9)


@given(
    st.lists(TEXTS, max_size=4),
    st.lists(st.builds(GlueEntry, TEXTS, st.none() | TEXTS, st.none() | TEXTS), max_size=4),
    st.lists(TEXTS | st.builds(DsRecord, st.integers(), st.integers(), st.integers(), TEXTS), max_size=3),
)
def test_any_input_is_checked_without_an_exception(
    nameservers: list[str], glue: list[GlueEntry], ds_records: list[DsLike]
) -> None:
    delegation, errors = check(nameservers, glue, ds_records)
    if not errors:
        assert {entry.host for entry in delegation.glue} == {
            host for host in delegation.nameservers if host == OWNER or host.endswith("." + OWNER)
        }


def warnings_of(nameservers: Sequence[str], glue: Sequence[GlueEntry] = ()) -> tuple[str, ...]:
    delegation, errors = check(nameservers, glue)
    assert errors == []
    return delegation_warnings(delegation)


def test_warnings() -> None:
    a, b = f"a.{OWNER}", f"b.{OWNER}"
    assert warnings_of(()) == ()
    assert warnings_of(ELSEWHERE) == ()
    (one,) = warnings_of(ELSEWHERE[:1])
    assert "only one nameserver" in one
    (same_place,) = warnings_of((a, b), (GlueEntry(a, "8.8.8.8"), GlueEntry(b, "8.8.8.9")))
    assert "8.8.8.0/24" in same_place
    assert warnings_of((a, b), (GlueEntry(a, "8.8.8.8"), GlueEntry(b, "8.8.4.4"))) == ()
    assert warnings_of((a, "ns.dns.example"), (GlueEntry(a, "8.8.8.8"),)) == ()
    # Two places for IPv6 are two places.
    assert (
        warnings_of((a, b), (GlueEntry(a, "8.8.8.8", "2a00:1::1"), GlueEntry(b, "8.8.8.9", "2a00:2::1")))
        == ()
    )
    (no_ipv4,) = warnings_of((a, b), (GlueEntry(a, None, "2a00:1::1"), GlueEntry(b, None, "2a00:2::1")))
    assert "IPv4" in no_ipv4
    (of_ds,) = delegation_warnings(Delegation(ELSEWHERE, (), (DsRecord(1, 16, 2, "ab" * 32),)))
    assert "ED448" in of_ds


def test_prune_glue() -> None:
    a, b = GlueEntry(f"a.{OWNER}", "8.8.8.8"), GlueEntry(f"b.{OWNER}", None, "2a00:1::1")
    kept = prune_glue((a, b, a), (f"A.{OWNER}.", "ns1.dns.example", "no name"))
    assert kept == (a, a)
    assert prune_glue((a, b), ()) == ()


A, B, C, D = "a.test", "b.test", "c.test", "d.test"


@pytest.mark.parametrize(
    ("nameservers", "registered", "cycle"),
    [
        ((), {}, None),
        (("ns.elsewhere.example",), {}, None),
        (("ns.a.test",), {}, None),  # inside the own name: glue
        (("ns.b.test",), {}, None),  # no host of the user
        (("ns.b.test",), {B: ("b.test",)}, None),
        (("b.test",), {B: ("ns.elsewhere.example",)}, None),
        (("ns.b.test",), {B: ("ns.a.test",)}, (A, B, A)),
        (("ns.b.test", "ns.elsewhere.example"), {B: ("ns.a.test",)}, None),  # one way is enough
        (("ns.b.test",), {B: ("ns.a.test", "ns.elsewhere.example")}, None),
        (("ns.b.test",), {B: ("ns.c.test",), C: ("ns.a.test",)}, (A, B, C, A)),
        (("ns.b.test", "ns.c.test"), {B: ("ns.c.test",), C: ("ns.b.test", "ns.a.test")}, (A, C, A)),
        (("ns.b.test",), {B: ("ns.c.test",), C: ("ns.b.test",)}, (A, B, C, B)),  # can't be resolved
        (("ns.b.test",), {B: ()}, None),  # not delegated, so no cycle
        (("ns.ab.test",), {B: ("ns.a.test",)}, None),  # only the letters at the end are equal
        (
            ("ns.x.b.test",),
            {B: ("ns.a.test",), "x.b.test": ("ns.elsewhere.example",)},
            None,
        ),  # the nearest name counts
        (("ns.x.b.test",), {B: ("ns.elsewhere.example",), "x.b.test": ("ns.a.test",)}, (A, "x.b.test", A)),
        (
            ("ns.b.test",),
            {A: ("ns.elsewhere.example",), B: ("ns.a.test",)},
            (A, B, A),
        ),  # the former delegation of A doesn't count
    ],
)
def test_find_nameserver_cycle(
    nameservers: tuple[str, ...], registered: dict[str, tuple[str, ...]], cycle: tuple[str, ...] | None
) -> None:
    assert find_nameserver_cycle(A, nameservers, registered) == cycle


SOME = st.lists(st.sampled_from([A, B, C, D, "e.test", "ns.elsewhere.example"]), max_size=3)


@given(SOME, st.dictionaries(st.sampled_from([B, C, D]), SOME))
def test_a_cycle_is_found_if_no_resolver_could_find_the_name(
    nameservers: list[str], registered: dict[str, list[str]]
) -> None:
    delegations = registered | {A: nameservers}
    found: set[str] = {name for name, hosts in delegations.items() if not hosts}
    for _ in delegations:
        found |= {
            name
            for name, hosts in delegations.items()
            if any(host == name or host not in delegations or host in found for host in hosts)
        }
    cycle = find_nameserver_cycle(A, nameservers, registered)
    assert (cycle is None) == (A in found)
    if cycle is not None:
        assert cycle[0] == A
        assert cycle[-1] in cycle[:-1]
        assert all(after in delegations[before] for before, after in pairwise(cycle))


def test_without_nameservers() -> None:
    ds = (DsRecord(1, 13, 2, "ab" * 32),)
    glue = (GlueEntry("ns1.ada.example.test", "8.8.8.8", None),)
    hosts = ("ns1.gone.example.test", "ns1.ada.example.test")
    delegation = Delegation(hosts, glue, ds)
    assert without_nameservers(delegation, hosts[:1]) == Delegation(hosts[1:], glue, ds)
    assert without_nameservers(delegation, hosts[1:]) == Delegation(hosts[:1], (), ds)
    assert without_nameservers(delegation, hosts) == Delegation()
