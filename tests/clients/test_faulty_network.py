"""The Python client through a network that delays, cuts and repeats answers."""

import time
from collections.abc import Iterator
from types import SimpleNamespace

import httpx2
import pytest

from sublet_client import Client, _transport
from support.http_clients import NO_TLS
from support.http_proxy import FATES, HttpProxy, http_proxy
from support.repetitions import share
from support.running_service import Registrant, RunningService

NAMES = share(8, whole=300)
SEED = 30


@pytest.fixture
def who(service: RunningService) -> Registrant:
    service.add_domain()
    return service.add_user(credit_count=1_000_000)


@pytest.fixture
def proxy(service: RunningService) -> Iterator[HttpProxy]:
    with http_proxy(service.base_url, SEED) as found:
        yield found


def _check_paid_once(service: RunningService, who: Registrant, fqdns: list[str]) -> None:
    names = [each["fqdn"] for each in service.list_all(who, "/subdomains", "subdomains")]
    charges = [
        each["credits"] for each in service.list_all(who, "/payments", "payments") if each["credits"] < 0
    ]
    assert sorted(names) == sorted(fqdns)
    assert charges == [-10] * len(fqdns)
    assert service.doctor() == []


def test_each_name_is_paid_once_despite_lost_answers(
    service: RunningService, who: Registrant, proxy: HttpProxy, monkeypatch: pytest.MonkeyPatch
) -> None:
    clock = SimpleNamespace(sleep=lambda seconds: time.sleep(seconds / 50), monotonic=time.monotonic)
    monkeypatch.setattr(_transport, "time", clock)
    fqdns = [f"n{number}.example.test" for number in range(NAMES)]
    http = httpx2.Client(verify=NO_TLS, trust_env=False)
    with Client(proxy.url, who.token, http=http) as client:
        for fqdn in fqdns:
            done = client.subdomains.register(fqdn, registration_mode="plus", confirm=True, max_credits=10)
            assert (done.subdomain.fqdn, done.charged_credits) == (fqdn, 10), "an answer of another request"
            assert client.subdomains.get(fqdn).fqdn == fqdn
    assert proxy.done.keys() == set(FATES)
    _check_paid_once(service, who, fqdns)
