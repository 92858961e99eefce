"""The Ansible collection under real ansible-playbook, against the real service and its DNS."""

import json
import random
from pathlib import Path
from typing import Any

import pytest

from support.ansible import Ansible
from support.child_keys import ChildKey
from support.configurations import DOMAIN, check_ansible, check_second_run, draw_configuration
from support.repetitions import share
from support.running_service import DS, Registrant, RunningService

NS = {"ns1.provider.example", "ns1.blog.example.test"}
PLAY = """
- hosts: localhost
  gather_facts: false
  tasks:
"""
NAME = f"""
    - sublet.registry.subdomain:
        fqdn: Blog.example.test.
        nameservers: [NS1.provider.example., ns1.blog.example.test]
        glue: {{"ns1.blog.example.test": ["8.8.4.4", "2001:4860:4860::0:8844"]}}
        ds_records: ["{DS.upper()}"]
        auto_renew: true
    - sublet.registry.token:
        name: ci
        scopes: [subdomains:read]
        names: ["*.Example.test"]
    - sublet.registry.ticket:
        subject: Friday
        message: We move.
    - sublet.registry.subdomain_info:
"""
ABSENT = """
    - sublet.registry.subdomain: {fqdn: blog.example.test, state: absent}
    - sublet.registry.token: {name: ci, state: absent}
"""
SHOP = """
    - sublet.registry.subdomain: {fqdn: shop.example.test, registration_mode: plus, max_credits: LIMIT}
"""


RECORDS = """
    - sublet.registry.subdomain: {fqdn: site.example.test}
    - sublet.registry.records:
        fqdn: Site.example.test
        records:
          - {name: "@", type: A, values: [8.8.8.8, 8.8.4.4]}
          - {name: www, type: CNAME, values: [Example.github.io], ttl: 3600}
          - {name: old, type: TXT, values: []}
    - sublet.registry.token: {name: certificates, scopes: ["records:write"], record_names: [_ACME-challenge]}
"""
REPLACED = """
    - sublet.registry.subdomain: {fqdn: records.example.test, nameservers: [ns1.provider.example]}
    - sublet.registry.records: {fqdn: host.example.test, records: [{name: "@", type: A, values: [8.8.4.4]}]}
"""
OTHER_SPELLINGS = """
    - sublet.registry.records:
        fqdn: site.example.test.
        records:
          - {name: SITE.example.test., type: TYPE1, values: [8.8.4.4, 8.8.8.8]}
          - {name: WWW, type: cname, values: ["example.github.io. ; a comment"]}
    - sublet.registry.records:
        fqdn: site.example.test
        exclusive: true
        records: [{name: www, type: CNAME, values: [example.github.io]}]
"""


@pytest.fixture
def who(service: RunningService) -> Registrant:
    service.add_domain("example.test", "--records", "on")
    return service.add_user(credit_count=25)


@pytest.fixture
def ansible(service: RunningService, who: Registrant, tmp_path: Path) -> Ansible:
    return Ansible(tmp_path, service.base_url, who.token)


def test_check_then_change_then_no_change(service: RunningService, who: Registrant, ansible: Ansible) -> None:
    a = [{"name": "@", "type": "A", "values": ["8.8.4.4"]}]
    service.register(who, "records.example.test", records=a)
    service.register(who, "host.example.test", nameservers=["ns1.provider.example"])
    checked = ansible.play(PLAY + NAME + RECORDS + REPLACED, "--check", "--diff")
    assert checked.code == 0, checked.text
    assert checked.changes == [True, True, True, False, *[True] * 5]
    assert '+        "ns1.blog.example.test",' in checked.text
    assert "records.example.test has records." in checked.text
    assert "host.example.test has nameservers." in checked.text
    assert len(service.call(who, "GET", "/subdomains").json()["subdomains"]) == 2

    done = ansible.play(PLAY + NAME + RECORDS)
    assert done.changes == [True, True, True, False, True, True, True], done.text
    assert service.delegation("blog.example.test") == NS
    assert done.results[0]["subdomain"]["status"] == "active"
    assert service.call(done.results[1]["secret"], "GET", "/subdomains").status_code == 200
    assert "blog.example.test" in {each["fqdn"] for each in done.results[3]["subdomains"]}
    assert sorted(service.dig("site.example.test", "A", "+short").split()) == ["8.8.4.4", "8.8.8.8"]

    again = ansible.play(PLAY + NAME + RECORDS + OTHER_SPELLINGS)
    assert again.changes == [*[False] * 8, True], again.text
    alias = {"name": "www", "type": "CNAME", "ttl": 3600, "values": ["example.github.io."]}
    assert again.results[-1]["records"] == [alias]
    assert service.call(who, "GET", "/subdomains/site.example.test/records").json()["records"] == [alias]


@pytest.mark.whole
def test_the_ds_of_a_dnskey_is_published(service: RunningService, ansible: Ansible) -> None:
    key = ChildKey.new()
    name = f"{{fqdn: key.example.test, nameservers: [ns1.provider.example], ds_records: ['{key.dnskey}']}}"
    played = ansible.play(f"{PLAY}    - sublet.registry.subdomain: {name}\n")
    assert played.code == 0, played.text
    assert service.ds("key.example.test") == {key.ds(owner="key.example.test")}


REFUSED: list[tuple[str, dict[str, Any], str]] = [
    ("subdomain", {"fqdn": "blog"}, "fqdn: `blog` is a single label."),
    ("subdomain", {"glue": {"ns1.blog.example.test": "8.8.4.4"}}, "glue: ns1.blog.example.test has no list of addresses."),  # noqa: E501
    ("subdomain", {"glue": {"ns1.blog.example.test": None}}, "glue: ns1.blog.example.test has no list of addresses."),  # noqa: E501
    ("subdomain", {"glue": {"ns1.blog.example.test": [None]}}, "glue: None is no text."),
    ("subdomain", {"glue": {"ns1.blog.example.test": ["8.8.4"]}}, "glue: `8.8.4` is not an IP address."),
    ("subdomain", {"nameservers": [None]}, "nameservers: None is no text."),
    ("subdomain", {"nameservers": ["ns1.example.org", "NS1.example.org."]}, "nameservers: ns1.example.org is given twice."),  # noqa: E501
    ("subdomain", {"ds_records": [{"key_tag": 1}]}, "is no text."),
    ("subdomain", {"ds_records": ["nonsense"]}, "ds_records: `nonsense` is no DS record."),
    ("subdomain", {"max_credits": -1}, "max_credits: `-1` is not a number of credits."),
    ("records", {"records": [{"name": "a..b", "type": "A", "values": []}]}, "records: `a..b` has an empty label"),  # noqa: E501
    ("records", {"records": [{"name": "@", "type": "NS", "values": []}]}, "records: `NS` is not a type that a name may have."),  # noqa: E501
    ("records", {"records": [{"name": "@", "type": "A", "values": ["8.8.4"]}]}, "records: `8.8.4` is not an IP address."),  # noqa: E501
    ("records", {"records": [{"name": "@", "type": kind, "values": []} for kind in ("A", "a")]}, "records: A of @ is given twice."),  # noqa: E501
    ("token", {"record_names": ["a..b"]}, "record_names: `a..b` is no owner of records."),
    ("token", {"scopes": ["names:read"]}, "scopes: There is no scope `names:read`."),
    ("token", {"scopes": []}, "scopes: the list is empty."),
    ("token", {"names": ["*"]}, "names: `*` contains `*`."),
    ("token", {"networks": ["192.0.2.7/24"]}, "networks: `192.0.2.7/24` is not a network."),
    ("token", {"expires_at": "tomorrow"}, "expires_at: `tomorrow` is not an instant of RFC 3339."),
]  # fmt: skip


def test_wrong_values_are_refused_in_one_sentence(ansible: Ansible) -> None:
    chosen = share(REFUSED[::5], whole=REFUSED)  # a task takes a second
    required: dict[str, dict[str, Any]] = {
        "subdomain": {"fqdn": "blog.example.test"},
        "records": {"fqdn": "blog.example.test"},
        "token": {"name": "ci", "scopes": ["account:read"]},
    }
    tasks = [
        {f"sublet.registry.{module}": {**required[module], **options}, "ignore_errors": True}
        for module, options, _ in chosen
    ]
    playbook = json.dumps([{"hosts": "localhost", "gather_facts": False, "tasks": tasks}])
    played = ansible.play(playbook, "--check")
    assert len(played.results) == len(chosen), played.text
    for result, (_, _, sentence) in zip(played.results, chosen, strict=True):
        assert sentence in result.get("msg", ""), result


@pytest.fixture
def of_many(service: RunningService, tmp_path: Path) -> Ansible:
    """Ansible of a user who can have many names."""
    service.add_domain(DOMAIN)
    who = service.add_user(credit_count=1000, free_quota="100")
    return Ansible(tmp_path, service.base_url, who.token)


@pytest.mark.whole
def test_random_configurations_need_no_change_in_a_second_run(of_many: Ansible) -> None:
    rng = random.Random(3)  # noqa: S311 - not for secrets
    check_second_run(of_many, [draw_configuration(rng, number) for number in range(5)])


@pytest.mark.whole
def test_check_mode_tells_what_random_configurations_change(of_many: Ansible) -> None:
    rng = random.Random(2)  # noqa: S311 - not for secrets
    check_ansible(of_many, [draw_configuration(rng, number) for number in range(5)], rng)


def test_nothing_is_paid_without_max_credits(
    service: RunningService, who: Registrant, ansible: Ansible
) -> None:
    refused = ansible.play(PLAY + SHOP.replace("LIMIT", "9"))
    assert refused.code != 0
    assert "shop.example.test costs 10 credits, and max_credits is 9. Set max_credits to 10" in refused.text
    assert service.call(who, "GET", "/credits").json()["credit_balance"] == 25
    assert ansible.play(PLAY + SHOP.replace("LIMIT", "10")).changes == [True]
    assert service.call(who, "GET", "/credits").json()["credit_balance"] == 15


@pytest.mark.whole
def test_drift_is_repaired_and_absent_names_are_restored(
    service: RunningService, who: Registrant, ansible: Ansible
) -> None:
    ansible.play(PLAY + NAME)
    drift = {"nameservers": ["ns9.provider.example"], "glue": [], "ds_records": []}
    service.call(who, "PUT", "/subdomains/blog.example.test/nameservers", drift)
    assert ansible.play(PLAY + NAME).changes == [True, False, False, False]
    assert service.delegation("blog.example.test") == NS
    assert ansible.play(PLAY + ABSENT, "--check").changes == [True, True]
    assert ansible.play(PLAY + ABSENT).changes == [True, True]
    assert service.delegation("blog.example.test") == set()
    assert ansible.play(PLAY + ABSENT).changes == [False, False]
    assert ansible.play(PLAY + NAME).changes == [True, True, False, False]
    assert service.delegation("blog.example.test") == NS
    wrong = ansible.play(PLAY + NAME.replace("NS1.provider.example.", "'-'"))
    assert "starts or ends with a hyphen" in wrong.results[-1]["msg"]
    # Two tokens have the name `test`, and the newer one, which is listed first, is the module's own.
    ansible.environment["SUBLET_TOKEN"] = service.issue_token(who.email)
    assert ansible.play(PLAY + "    - sublet.registry.token: {name: test, state: absent}").changes == [True]
    assert service.call(who, "GET", "/me").json()["error"] == "token_revoked"
