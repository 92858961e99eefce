"""The Python client against the real service: names, quotes, tokens, tickets, both clients, and a service
that is killed.
"""

import asyncio
import re
from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager, contextmanager

import httpx2
import pytest

from sublet_client import (
    AsyncClient,
    Client,
    GlueEntry,
    InsufficientCredits,
    InvalidRequest,
    PaymentConfirmationRequired,
    PreconditionFailed,
    PriceChanged,
    SubdomainNotFound,
    SubdomainUnavailable,
    TokenInvalid,
    ValidationFailed,
)
from sublet_client._model import LINE_CHARACTERS_MAX, Model
from support.http_clients import NO_TLS
from support.running_service import Registrant, RunningService

NS = ["ns1.provider.example", "ns2.provider.example"]
DS = "2371 13 2 1f987cc6583e92df0890718c42a1d3b1a1f4b4a6b2d8a1dd09a4c1d7f4d3e5a6"
OTHER_DS = DS.replace("2371", "2372")


@contextmanager
def _client(service: RunningService, who: Registrant) -> Iterator[Client]:
    http = httpx2.Client(verify=NO_TLS, trust_env=False)
    with Client(service.base_url, who.token, http=http) as client:
        yield client


@asynccontextmanager
async def _async_client(service: RunningService, who: Registrant) -> AsyncIterator[AsyncClient]:
    http = httpx2.AsyncClient(verify=NO_TLS, trust_env=False)
    async with AsyncClient(service.base_url, who.token, http=http) as client:
        yield client


@pytest.fixture
def who(service: RunningService) -> Registrant:
    service.add_domain()
    return service.add_user(credit_count=25, free_quota="20")


def test_a_name_from_registration_to_the_trash(service: RunningService, who: Registrant) -> None:
    with _client(service, who) as client:
        assert client.subdomains.availability("blog.example.test").available
        glue = [GlueEntry(host="ns1.blog.example.test", ipv4="8.8.4.4")]
        made = client.subdomains.register(
            "blog.example.test", nameservers=[*NS, "ns1.blog.example.test"], glue=glue, ds_records=[DS]
        )
        assert made.charged_credits == 0
        settled = client.subdomains.wait("blog.example.test")
        assert settled.status == "active"
        assert service.delegation("blog.example.test") == {*NS, "ns1.blog.example.test"}
        found = client.subdomains.get("blog.example.test")
        assert repr(found).startswith(f"Subdomain(id={found.id}, fqdn='blog.example.test', status='active', ")
        assert [str(each) for each in found.ds_records] == [DS]
        done = client.subdomains.update_nameservers(
            "blog.example.test",
            nameservers=found.nameservers,
            glue=found.glue,
            ds_records=[*found.ds_records, OTHER_DS],
        )
        assert [each.key_tag for each in done.subdomain.ds_records] == [2371, 2372]
        client.subdomains.update_nameservers("blog.example.test", nameservers=NS, glue=[])
        kept = client.subdomains.get("blog.example.test")
        assert (kept.nameservers, kept.ds_records) == (tuple(NS), done.subdomain.ds_records)
        assert client.subdomains.delegation("blog.example.test").delegation.stored.nameservers == tuple(NS)
        for wrong in ({"ns1.blog.example.test": "8.8.4.4"}, [{"ns1.blog.example.test": "8.8.4.4"}]):
            with pytest.raises(InvalidRequest, match="glue is a list of GlueEntry") as refused:
                client.subdomains.update_nameservers("blog.example.test", glue=wrong)  # type: ignore[arg-type]
            assert str(refused.value).count(refused.value.errors[0].message) == 1
        with pytest.raises(SubdomainUnavailable, match=r"client\.subdomains\.update_nameservers\(\)"):
            client.subdomains.register("blog.example.test")
        client.subdomains.delete("blog.example.test")
        with pytest.raises(SubdomainNotFound, match=r"In Python: see client\.subdomains\.restore\(\)"):
            client.subdomains.get("blog.example.test")
        with pytest.raises(SubdomainNotFound, match=r"client\.subdomains\.list\(\)"):
            client.subdomains.update_nameservers("nobody.example.test", nameservers=NS)
        assert (
            client.subdomains.quote_restore("blog.example.test").confirm().subdomain.fqdn
            == "blog.example.test"
        )


def test_nothing_is_paid_without_a_confirmation(service: RunningService, who: Registrant) -> None:
    with _client(service, who) as client:
        with pytest.raises(PaymentConfirmationRequired) as unpaid:
            client.subdomains.register("shop.example.test", registration_mode="plus")
        assert unpaid.value.quote.price == 10
        quote = client.subdomains.quote("shop.example.test", registration_mode="plus", nameservers=NS)
        assert quote.price == 10
        assert quote.details is not None
        assert quote.details.balance_after == 15
        assert client.credits.get().credit_balance == 25
        with pytest.raises(PriceChanged) as changed:
            quote.confirm(max_credits=9)
        assert changed.value.quote.price == 10
        assert quote.confirm().charged_credits == 10
        assert quote.confirm().charged_credits == 10  # the same key: done once
        assert client.credits.get().credit_balance == 15
        assert [each.fqdn for each in client.subdomains.list()] == ["shop.example.test"]
        free = client.subdomains.quote("gift.example.test", nameservers=NS)
        assert (free.price, free.result) == (0, None)
        assert [each.fqdn for each in client.subdomains.list(q="gift")] == []
        free.confirm()
        assert [each.fqdn for each in client.subdomains.list(q="gift")] == ["gift.example.test"]
        for label in ("one", "two"):
            dear = client.subdomains.quote(f"{label}.example.test", registration_mode="plus")
            if label == "one":
                dear.confirm()
            else:
                with pytest.raises(InsufficientCredits) as poor:
                    dear.confirm()
                assert poor.value.quote.shortfall == 5


def test_pages_are_fetched_on_demand(service: RunningService, who: Registrant) -> None:
    with _client(service, who) as client:
        for number in range(5):
            client.subdomains.register(f"n{number}.example.test")
        assert len(list(client.subdomains.list(limit=2))) == 5


def test_a_change_with_an_old_etag_is_refused(service: RunningService, who: Registrant) -> None:
    with _client(service, who) as client:
        client.subdomains.register("blog.example.test")
        seen = client.subdomains.get_tagged("blog.example.test")
        client.subdomains.update_nameservers("blog.example.test", nameservers=NS, if_match=seen.etag)
        with pytest.raises(PreconditionFailed):
            client.subdomains.update_nameservers("blog.example.test", nameservers=NS[:1], if_match=seen.etag)


def test_tokens_and_tickets(service: RunningService, who: Registrant) -> None:
    with _client(service, who) as client:
        made = client.tokens.create("ci", ["subdomains:read"], names=["*.example.test"])
        assert made.secret is not None
        with Client(service.base_url, made.secret.reveal(), http=httpx2.Client(verify=NO_TLS)) as other:
            assert list(other.subdomains.list()) == []
        rotated = client.tokens.rotate(made.token.id, overlap_seconds=0)
        assert rotated.secret not in (None, made.secret)
        with (
            Client(service.base_url, made.secret.reveal(), http=httpx2.Client(verify=NO_TLS)) as other,
            pytest.raises(TokenInvalid),
        ):
            other.account.me()
        client.tokens.revoke(made.token.id)
        ticket = client.tickets.open("Where is my name?", "It is gone.")
        assert client.tickets.reply(ticket.id, "Found.").messages[-1].message == "Found."
        with pytest.raises(ValidationFailed) as refused:
            client.tickets.open("", "")
        assert {each.field for each in refused.value.errors} == {"subject", "message"}


def test_the_asynchronous_client_does_the_same(service: RunningService, who: Registrant) -> None:
    async def story() -> None:
        async with _async_client(service, who) as client:
            names = [f"n{number}.example.test" for number in range(10)]
            await asyncio.gather(*(client.subdomains.register(each, nameservers=NS) for each in names))
            assert {each.fqdn async for each in client.subdomains.list(limit=3)} == set(names)
            assert (await client.subdomains.wait(names[0])).status == "active"
            quote = await client.subdomains.quote("shop.example.test", registration_mode="plus")
            assert (await quote.confirm()).charged_credits == 10
            with pytest.raises(SubdomainNotFound):
                await client.subdomains.get("nobody.example.test")

    asyncio.run(story())


def test_every_result_is_shown_in_one_line() -> None:
    for kind in Model.__subclasses__():
        result = kind(**dict.fromkeys(kind.__struct_fields__, "line\n" * 7))
        assert re.fullmatch(rf"{kind.__name__}\(\w+=.*\)", repr(result))
        assert len(repr(result)) <= LINE_CHARACTERS_MAX


def test_a_client_shows_its_address_and_no_token() -> None:
    for kind in (Client, AsyncClient):
        shown = repr(kind("https://names.example.net", "sublet_secret"))
        assert shown == f"{kind.__name__}('https://names.example.net/api/v1')"
