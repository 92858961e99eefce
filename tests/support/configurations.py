"""Random objects that the service accepts, each value in a random spelling, as Terraform and Ansible
configure them.
"""

import json
import random
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from ipaddress import IPv4Address, IPv6Address
from typing import Any

from sublet.dns.names import to_unicode
from support.ansible import Ansible
from support.child_keys import ChildKey
from support.spellings import KINDS, change_case, to_full_width
from support.terraform import Terraform

DOMAIN = "example.test"
LABELS = ["blog", "shop-1", "xn--bcher-kva", "xn--fa-hia"]
PROVIDERS = ["ns1.provider.example", "ns2.provider.example", "dns.example.org", "xn--bcher-kva.example.org"]
SCOPES = ["account:read", "subdomains:read", "subdomains:write", "tickets:read", "tokens:write"]
ROLES = ["owner", "member", "billing", "viewer"]


@dataclass(frozen=True, slots=True)
class Configuration:
    """A name and a token. Members that are left out are missing.

    `others` has what Terraform alone configures, by resource: an offer of the name, an organization with a
    member, the automatic DS.
    """

    name: Mapping[str, Any]
    token: Mapping[str, Any]
    others: Mapping[str, Mapping[str, Any]] = field(default_factory=dict)


def draw_configuration(rng: random.Random, number: int) -> Configuration:
    """Return a configuration with a name and a token that no other number has."""
    fqdn = f"{rng.choice(LABELS[:2])}-{number}.{DOMAIN}"
    if rng.random() < 0.4:
        fqdn = KINDS["name"].rule(f"{rng.choice(['bücher', 'faß'])}{number}.{DOMAIN}")  # type: ignore[assignment]
    name: dict[str, Any] = {"fqdn": _respelled(rng, "name", str(fqdn))}
    hosts = rng.sample(PROVIDERS, rng.randrange(1, 4))
    inner = [f"{label}.{fqdn}" for label in ("ns1", "ns2") if rng.random() < 0.4]
    if rng.random() < 0.9:
        name["nameservers"] = [
            _respelled(rng, "host", each) for each in rng.sample(hosts + inner, len(hosts + inner))
        ]
        if inner:
            name["glue"] = {_respelled(rng, "host", each): _addresses(rng) for each in inner}
        if rng.random() < 0.6:
            name["ds_records"] = _ds_records(rng, str(fqdn))
    elif rng.random() < 0.5:
        name |= {"nameservers": [], "glue": {}, "ds_records": []}
    if rng.random() < 0.4:
        name["registration_mode"], name["max_credits"] = rng.choice([("free", 0), ("plus", 10), ("plus", 25)])
    if rng.random() < 0.5:
        name["auto_renew"] = rng.random() < 0.7
    return Configuration(name, _token(rng, number), _others(rng, number, str(fqdn)))


def _others(rng: random.Random, number: int, fqdn: str) -> dict[str, dict[str, Any]]:
    """Return the resources of Terraform alone.

    Each invites another mailbox, because one gets five mails an hour.
    """
    found: dict[str, dict[str, Any]] = {}
    if rng.random() < 0.5:
        found["transfer"] = {"to": _respelled(rng, "mail address", "grace@example.org")}
    if rng.random() < 0.4:
        found["organization"] = {"name": rng.choice(["{}", " {}\t", "bücher {}"]).format(f"guild {number}")}
        email = _respelled(rng, "mail address", f"member{number}@xn--bcher-kva.example")
        found["organization_member"] = {"email": email, "role": rng.choice(ROLES)}
    if rng.random() < 0.3:
        wanted = {"enabled": rng.random() < 0.5, "bootstrap": rng.random() < 0.5}
        chosen = {member: value for member, value in wanted.items() if rng.random() < 0.7}
        found["automatic_ds"] = {"fqdn": _respelled(rng, "name", fqdn), **chosen}
    return found


def _token(rng: random.Random, number: int) -> dict[str, Any]:
    patterns = [f"*.{DOMAIN}", f"blog.{DOMAIN}", f"*.xn--bcher-kva.{DOMAIN}"]
    networks = ["192.0.2.7/32", "198.51.100.0/24", "2001:db8::/48", "2001:db8::1/128"]
    optional = {
        "names": [_respelled(rng, "pattern", each) for each in _some(rng, patterns)],
        "domains": [_respelled(rng, "name", DOMAIN)],
        "networks": [_respelled(rng, "network", each) for each in _some(rng, networks)],
        "daily_credits": rng.randrange(10**6),
        "expires_at": f"{datetime.now(UTC).date() + timedelta(days=rng.randrange(30, 330))}{rng.choice('Tt')}10:00:00{rng.choice(['', '.5', '.123456'])}{rng.choice(['Z', 'z', '+02:00', '-11:30'])}",  # noqa: E501
    }
    title = rng.choice(["{}", " {} ", "bücher {}"]).format(f"token {number}")
    chosen = {member: value for member, value in optional.items() if rng.random() < 0.5}
    return {"name": title, "scopes": _some(rng, SCOPES), **chosen}


def _some(rng: random.Random, items: list[str]) -> list[str]:
    return rng.sample(items, rng.randrange(1, len(items) + 1))


def _respelled(rng: random.Random, kind: str, canonical: str) -> str:
    """Return a random spelling of a canonical value, or the value itself."""
    changes: list[Callable[[str], str]] = [
        lambda text: change_case(rng, text),
        lambda text: text + ".",
        lambda text: text.replace(".", rng.choice(["\u3002", "\uff0e"])),
        lambda text: to_full_width(rng, text),
        lambda text: f" {text} ",
        lambda text: text[:3] + "\u00ad" + text[3:],
        lambda text: text.removesuffix("/32").removesuffix("/128"),
        lambda text: text.replace("/24", "/255.255.255.0").replace("2001:db8::", "2001:0DB8:0::"),
        to_unicode,
    ]
    found = canonical
    for _ in range(rng.randrange(4)):
        changed = rng.choice(changes)(found)
        try:
            found = changed if KINDS[kind].rule(changed) == canonical else found
        except ValueError:
            continue
    return found


def _addresses(rng: random.Random) -> list[str]:
    v4 = str(IPv4Address("8.8.4.0") + rng.randrange(256))
    v6 = IPv6Address("2001:4860:4860::") + rng.randrange(1, 2**16)
    spellings = [v6.compressed, v6.compressed.upper(), v6.exploded]
    return rng.choice([[v4], [v4, *rng.sample(spellings, 2)], [rng.choice(spellings)]])


def _ds_records(rng: random.Random, fqdn: str) -> list[str]:
    """Return DS records and DNSKEYs in zone-file text, one of them perhaps in two spellings."""
    found: list[str] = []
    for _ in range(rng.randrange(1, 3)):
        text = f"{rng.randrange(65536)} 13 2 {rng.randbytes(32).hex()}"
        others = [f"0{text}", text.replace(" 13 ", " ECDSAP256SHA256 "), f"{fqdn}. 3600 IN DS ( {text} )"]
        found.append(rng.choice([text, str(ChildKey.new().dnskey), *others]))
    return [*found, found[0].replace(" 13 ", " 013 ")] if rng.random() < 0.3 else found


def check_terraform(terraform: Terraform, configurations: list[Configuration], rng: random.Random) -> None:
    """Apply configurations, import all objects again, and assert that no plan has a change after either."""
    text = "".join(_hcl(number, each) for number, each in enumerate(configurations))
    terraform.write(text)
    terraform.apply()
    assert terraform.planned() == {}, text
    imports, addresses = "", []
    for number, each in enumerate(configurations):
        for kind in ("subdomain", "token", *each.others):
            address = f"sublet_{kind}.c{number}"
            identifier = _identifier(kind, each, terraform.state(address), rng)
            imports += f"import {{\n  to = {address}\n  id = {_quoted(identifier)}\n}}\n"
            addresses.append(address)
    removed = terraform.run("state", "rm", *addresses)
    assert removed.code == 0, removed.text
    terraform.write(text + imports)
    assert terraform.planned() == dict.fromkeys(addresses, "imported"), text
    assert f"{len(addresses)} imported, 0 added, 0 changed, 0 destroyed" in terraform.apply()
    assert terraform.planned() == {}, text


def _identifier(kind: str, each: Configuration, state: Mapping[str, Any], rng: random.Random) -> str:
    """Return what an import takes: the id, or a spelling of the name or of the address."""
    if kind == "organization_member":
        return f"{state['organization_id']}/{each.others[kind]['email']}"
    names = [each.name["fqdn"], to_unicode(str(KINDS["name"].rule(each.name["fqdn"])))]
    if kind == "automatic_ds":
        return str(rng.choice(names))
    return str(rng.choice([state["id"], *names]) if kind == "subdomain" else state["id"])


def check_ansible(ansible: Ansible, configurations: list[Configuration], rng: random.Random) -> None:
    """Play configurations, then the same with changes, and assert that check mode tells what the real run
    does, each time.

    In between, configurations that stay as they are change nothing, and neither does the last run. One start
    of Ansible does all.
    """
    first = [options for each in configurations for options in _tasks(each)]
    altered = [rng.choice([_same, _changed, _absent])(rng, *each) for each in first]
    unaltered = [each == other for each, other in zip(first, altered, strict=True)]
    runs = [(first, True), (first, False), (altered, True), (altered, False), (altered, False)]
    played = ansible.play(_playbook(*runs), "-vvv")
    assert played.code == 0, played.text
    assert len(played.results) == len(runs) * len(first), played.text
    told = [
        {name: each.get(name) for name in ("changed", "diff", "price_credits")} for each in played.results
    ]
    checked, done, checked_again, done_again, unchanged = (
        told[start : start + len(first)] for start in range(0, len(told), len(first))
    )
    assert checked == done, first
    assert checked_again == done_again, altered
    assert all(each["diff"] is not None for each in (*done, *done_again)), played.text
    assert all(each["changed"] for each in done), played.text
    assert not any(each["changed"] for each, same in zip(done_again, unaltered, strict=True) if same), altered
    assert not any(each["changed"] for each in unchanged), played.text


def check_second_run(ansible: Ansible, configurations: list[Configuration]) -> None:
    """Play configurations twice, and assert that the second run changes nothing.

    One start of Ansible does both.
    """
    tasks = [options for each in configurations for options in _tasks(each)]
    played = ansible.play(_playbook((tasks, False), (tasks, False)))
    assert played.changes == [True] * len(tasks) + [False] * len(tasks), played.text


Task = tuple[str, dict[str, Any]]
"""A module and its options."""


def _playbook(*runs: tuple[list[Task], bool]) -> str:
    """Return a playbook with these runs, each of them in check mode or not."""
    lines = [
        {f"sublet.registry.{module}": options, "check_mode": is_check}
        for tasks, is_check in runs
        for module, options in tasks
    ]
    play = {"hosts": "localhost", "gather_facts": False, "tasks": lines}
    return json.dumps([play], ensure_ascii=False)


def _tasks(configuration: Configuration) -> list[Task]:
    return [("subdomain", dict(configuration.name)), ("token", dict(configuration.token))]


def _same(rng: random.Random, module: str, options: dict[str, Any]) -> Task:
    return module, options


def _absent(rng: random.Random, module: str, options: dict[str, Any]) -> Task:
    return module, {**options, "state": "absent"}


def _changed(rng: random.Random, module: str, options: dict[str, Any]) -> Task:
    """Return a task with other values, some of them perhaps as before."""
    if module == "token":
        return module, {**options, "scopes": _some(rng, SCOPES), "daily_credits": rng.randrange(10**6)}
    renewal: dict[str, Any] = rng.choice([{"auto_renew": True, "max_credits": 25}, {"auto_renew": False}, {}])
    hosts = rng.sample(PROVIDERS, rng.randrange(1, 4))
    records = rng.choice([[], [f"{rng.randrange(65536)} 13 2 {rng.randbytes(32).hex()}"]])
    return module, {**options, "nameservers": hosts, "glue": {}, "ds_records": records, **renewal}


REFERENCES = {
    "transfer": "fqdn = sublet_subdomain.c{}.fqdn",
    "organization_member": "organization_id = sublet_organization.c{}.id",
    "automatic_ds": "depends_on = [sublet_subdomain.c{}]",
}
"""What a resource takes from another one of its configuration."""


def _hcl(number: int, configuration: Configuration) -> str:
    resources = {"subdomain": configuration.name, "token": configuration.token, **configuration.others}
    return "".join(
        f'resource "sublet_{kind}" "c{number}" {{\n  {REFERENCES.get(kind, "").format(number)}\n'
        + "".join(f"  {member} = {_quoted(value)}\n" for member, value in members.items())
        + "}\n"
        for kind, members in resources.items()
    )


def _quoted(value: Any) -> str:
    """Return a value as HCL has it."""
    if isinstance(value, dict):
        return "{ " + ", ".join(f"{_quoted(key)} = {_quoted(each)}" for key, each in value.items()) + " }"
    return json.dumps(value, ensure_ascii=False)
