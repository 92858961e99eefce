"""Publishing on every kind of name server: the DNS serves what the API shows."""

import itertools
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass

import pytest

from long.faults.races import register_at_once
from sublet.primaries import primary_zone
from support.name_servers import KINDS
from support.running_service import DS, Registrant
from support.service_on_primary import BUILT_IN, ServiceOn, service_on
from support.waiting import wait_until

DS_RDATA = DS.lower()


QUICK = "knot"
"""The kind for one test in `make test-fast` too."""


@pytest.fixture(
    scope="module",
    params=[
        pytest.param(kind, marks=[] if kind == QUICK else pytest.mark.slow) for kind in (BUILT_IN, *KINDS)
    ],
)
def on(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Iterator[ServiceOn]:
    with service_on(request.param, tmp_path_factory.mktemp(request.param), publish_wait_ms=60_000) as found:
        yield found


_NUMBERS = itertools.count(1)


@dataclass(frozen=True, slots=True)
class Named:
    """A name that no earlier test used, because deleted names stay in the trash, with two hosts below it."""

    name: str

    @property
    def host(self) -> str:
        return f"ns1.{self.name}"

    @property
    def other(self) -> str:
        return f"ns2.{self.name}"


@pytest.fixture
def blog() -> Named:
    return Named(f"blog{next(_NUMBERS)}.example.test")


@pytest.fixture(autouse=True)
def leave_nothing(on: ServiceOn, ada: Registrant) -> Iterator[None]:
    yield
    names = [
        each["fqdn"] for each in on.service.call(ada, "GET", "/subdomains?limit=500").json()["subdomains"]
    ]
    with ThreadPoolExecutor(20) as threads:
        list(threads.map(lambda name: on.service.call(ada, "DELETE", f"/subdomains/{name}"), names))
    wait_until(lambda: on.records() == set())


def _put(on: ServiceOn, ada: Registrant, blog: Named, **members: object) -> dict[str, object]:
    answer = on.service.call(ada, "PUT", f"/subdomains/{blog.name}/nameservers", members)
    assert answer.status_code == 200, answer.text
    on.wait_until_active(ada, blog.name)
    return dict(answer.json())


def _register_at_once(on: ServiceOn, who: Registrant, names: list[str]) -> None:
    bodies = [{"fqdn": name, "nameservers": ["ns.provider.example"]} for name in names]
    answers = register_at_once([on.service], [(who, body, {}) for body in bodies])
    assert {each.status_code for each in answers} == {201}, [each.text for each in answers]


def test_a_registration_is_in_the_zone_when_it_is_answered(
    on: ServiceOn, ada: Registrant, blog: Named
) -> None:
    answer = on.service.register(
        ada,
        blog.name,
        nameservers=[blog.host, "ns.provider.example"],
        glue=[{"host": blog.host, "ipv4": "9.9.9.9", "ipv6": "2620:fe::9"}],
        ds_records=[DS],
    )
    assert answer["subdomain"]["status"] == "active"
    assert answer["provisioning"]["status"] == "published"
    assert answer["provisioning"]["serial"] > 0
    assert on.records() == {
        (blog.name, "NS", f"{blog.host}."),
        (blog.name, "NS", "ns.provider.example."),
        (blog.name, "DS", DS_RDATA),
        (blog.host, "A", "9.9.9.9"),
        (blog.host, "AAAA", "2620:fe::9"),
    }


@pytest.mark.slow
def test_a_change_leaves_no_old_record(on: ServiceOn, ada: Registrant, blog: Named) -> None:
    glue = [
        {"host": blog.host, "ipv4": "9.9.9.9", "ipv6": "2620:fe::9"},
        {"host": blog.other, "ipv4": "9.9.9.10"},
    ]
    on.service.register(ada, blog.name, nameservers=[blog.host, blog.other], glue=glue, ds_records=[DS])
    _put(
        on,
        ada,
        blog,
        nameservers=[blog.other],
        glue=[{"host": blog.other, "ipv4": "8.8.8.8"}],
        ds_records=None,
    )
    assert on.records() == {(blog.name, "NS", f"{blog.other}."), (blog.other, "A", "8.8.8.8")}
    _put(on, ada, blog, nameservers=["ns.provider.example"], glue=[])
    assert on.records() == {(blog.name, "NS", "ns.provider.example.")}


@pytest.mark.slow
def test_a_deletion_removes_all_records_at_and_below_the_name(
    on: ServiceOn, ada: Registrant, blog: Named
) -> None:
    on.service.register(
        ada,
        blog.name,
        nameservers=[blog.host],
        glue=[{"host": blog.host, "ipv4": "9.9.9.9"}],
        ds_records=[DS],
    )
    assert len(on.records()) == 3
    on.service.call(ada, "DELETE", f"/subdomains/{blog.name}")
    wait_until(lambda: on.records() == set())
    on.service.call(ada, "POST", f"/subdomains/{blog.name}/restore")
    wait_until(lambda: len(on.records()) == 3)


@pytest.mark.slow
def test_a_new_ttl_is_published(on: ServiceOn, ada: Registrant, blog: Named) -> None:
    if on.server is None:
        pytest.skip("the record's TTL is seen by transfer")
    on.service.register(ada, blog.name, nameservers=["ns.provider.example"])
    on.service.operator("domain", "edit", "example.test", "--delegation-ttl-seconds", "600")
    try:
        wait_until(
            lambda: {each.ttl_seconds for each in on.primary.records() if each.owner == blog.name} == {600}
        )
    finally:
        on.service.operator("domain", "edit", "example.test", "--delegation-ttl-seconds", "3600")


@pytest.mark.slow
def test_foreign_records_are_never_overwritten(on: ServiceOn, ada: Registrant, blog: Named) -> None:
    if on.server is None:
        pytest.skip("the built-in name server has only adopted records, whose names are taken")
    foreign = {("taken.example.test", "A", "8.8.8.8"), ("taken.example.test", "TXT", '"by hand"')}
    on.primary.nsupdate(
        ["add taken.example.test. 300 A 8.8.8.8", 'add taken.example.test. 300 TXT "by hand"']
    )
    try:
        answer = on.service.call(
            ada, "POST", "/subdomains", {"fqdn": "taken.example.test", "nameservers": ["ns.provider.example"]}
        )
        if answer.status_code == 201:  # the last check of the zone did not know it yet
            shown = answer.json()["subdomain"]
            assert shown["status"] == "failed"
            assert "in use" in shown["provision_error"]
        else:
            assert answer.json()["details"]["reason"] == "taken"
        beside = on.service.register(ada, blog.name, nameservers=["ns.provider.example"])
        assert beside["subdomain"]["status"] == "active"
        assert on.records() == foreign | {(blog.name, "NS", "ns.provider.example.")}
    finally:
        on.service.call(ada, "DELETE", "/subdomains/taken.example.test")
        wait_until(lambda: on.records() >= foreign)
        on.primary.nsupdate(["delete taken.example.test."])


@pytest.mark.slow
def test_a_name_in_use_does_not_delay_the_rest_of_its_batch(
    on: ServiceOn, ada: Registrant, blog: Named, monkeypatch: pytest.MonkeyPatch
) -> None:
    if on.server is None:
        pytest.skip("the built-in name server has only adopted records, whose names are taken")
    on.primary.nsupdate(["add n5.example.test. 300 TXT hand"])
    monkeypatch.setattr(primary_zone, "TIMEOUT_SECONDS", 1.0)
    on.primary.freeze()
    names = [f"n{number}.example.test" for number in range(8)]
    _register_at_once(on, ada, names)
    monkeypatch.undo()
    on.primary.thaw()
    wait_until(lambda: len(on.records()) == 8)
    assert {owner for owner, rdtype, _ in on.records() if rdtype == "NS"} == {*names} - {names[5]}
    wait_until(lambda: "in use" in str(on.shown(ada, names[5])["provision_error"]))
    on.primary.nsupdate(["delete n5.example.test."])
    wait_until(lambda: (names[5], "NS", "ns.provider.example.") in on.records())
