"""A trigger for each code of a wrong field over HTTP, like those of `error_triggers`."""

from collections.abc import Iterator
from typing import Any

from support.error_triggers import Provocation, Send, by_new_user, new_user, unused_name
from support.running_service import DS, RunningService

FIELD_CODES: dict[str, Provocation] = {}


def _field(function: Provocation) -> Provocation:
    FIELD_CODES[function.__name__] = function
    return function


def _registering(code: str, **body: Any) -> None:
    FIELD_CODES[code] = by_new_user("POST", "/subdomains", body, credit_count=10)


_SPAN = ["ns1.provider.example", "ns2.provider.example", "ns3.provider.example", "ns4.provider.example"]
_registering("value_invalid", nameservers=["ns1.provider.example"], ns1="ns2.provider.example")
_registering("label_required", fqdn=None, domain="example.test")
_registering("label_invalid", fqdn="-a.example.test")
_registering("label_too_short", fqdn="abc.strict.test")
_registering("fqdn_mismatch", fqdn="abcd.example.test", label="abce")
_registering("platform_domain_required", fqdn=None, label="abcd")
_registering("registration_mode_invalid", registration_mode="gold")
_registering("nameserver_invalid", nameservers=["ns1_provider.example"])
_registering("nameserver_duplicate", nameservers=["ns1.provider.example", "NS1.provider.example."])
_registering("too_many_nameservers", fqdn="abcd.strict.test", nameservers=_SPAN)
_registering("too_few_nameservers", fqdn="abcd.strict.test", nameservers=_SPAN[:1])
_registering("glue_required", fqdn="inner.example.test", nameservers=["ns1.inner.example.test"])
_registering("glue_not_allowed", nameservers=_SPAN, glue=[{"host": _SPAN[0], "ipv4": "8.8.4.4"}])
_registering(
    "glue_not_public",
    fqdn="inner.example.test",
    nameservers=["ns1.inner.example.test"],
    glue=[{"host": "ns1.inner.example.test", "ipv4": "10.0.0.1"}],
)
_registering(
    "glue_invalid",
    fqdn="inner.example.test",
    nameservers=["ns1.inner.example.test"],
    glue=[{"host": "ns1.inner.example.test", "ipv4": "8.8.4.04"}],
)
_RECORD = {"name": "@", "type": "A", "values": ["8.8.4.4"]}
for _code, _records in {
    "record_invalid": [{**_RECORD, "values": ["8.8.4.04"]}],
    "record_duplicate": [_RECORD, _RECORD],
    "cname_not_alone": [_RECORD, {**_RECORD, "type": "CNAME", "values": ["www.provider.example"]}],
    "too_many_records": [{**_RECORD, "name": f"n{number}"} for number in range(51)],
    "address_not_public": [{**_RECORD, "values": ["10.0.0.1"]}],
}.items():
    _registering(_code, fqdn="inner.records.test", records=_records)
_registering("ds_invalid", nameservers=_SPAN, ds_records=["2371 13 1 1f987cc6583e92df0890718c42"])
_registering("ds_without_nameservers", ds_records=[DS])
_registering(
    "too_many_ds_records", nameservers=_SPAN, ds_records=[f"{tag} {DS.partition(' ')[2]}" for tag in range(9)]
)
_registering("nameserver_unregistered", nameservers=["ns1.unregistered.example.test"])
_registering("coupon_invalid", registration_mode="plus", coupon_code="NOSUCH")
_registering("unknown_field", nameserver="ns1.provider.example")
_registering("wrong_type", confirm="true")
FIELD_CODES |= {
    "required": by_new_user("POST", "/support/tickets", {"subject": "No message"}),
    "too_long": by_new_user("POST", "/support/tickets", {"subject": "x" * 201, "message": "short"}),
    "unknown_value": by_new_user("GET", "/subdomains?status=live"),
}


@_field
def coupon_not_applicable(service: RunningService) -> Iterator[Send]:
    service.operator("coupon", "add", "PLUS", "--percent", "50")
    yield from by_new_user("POST", "/subdomains", {"coupon_code": "plus"})(service)


@_field
def nameserver_cycle(service: RunningService) -> Iterator[Send]:
    user = new_user(service)
    one, other = unused_name(), unused_name()
    service.register(user, one)
    service.register(user, other, nameservers=[f"ns1.{one}"])
    path = f"/subdomains/{one}/nameservers"
    yield lambda: service.call(user, "PUT", path, {"nameservers": [f"ns1.{other}"]})


@_field
def exceeds_token(service: RunningService) -> Iterator[Send]:
    token = service.issue_token(new_user(service).email, "tokens:write")
    body = {"name": "more", "scopes": ["credits:spend"]}
    yield lambda: service.call(token, "POST", "/tokens", body)


@_field
def ticket_subdomain_invalid(service: RunningService) -> Iterator[Send]:
    foreign = service.register(new_user(service), unused_name())["subdomain"]["fqdn"]
    user = new_user(service)
    body = {"subject": "Whose", "message": "is it?", "fqdn": foreign}
    yield lambda: service.call(user, "POST", "/support/tickets", body)


@_field
def duplicate_field(service: RunningService) -> Iterator[Send]:
    user = new_user(service)
    headers = {"authorization": f"Bearer {user.token}", "content-type": "application/json"}
    content = b'{"fqdn": "a.example.test", "fqdn": "b.example.test"}'
    yield lambda: service.client.post(service.base_url + "/subdomains", content=content, headers=headers)
