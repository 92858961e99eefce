"""An update that counted as lost and arrives after a newer one changes nothing; broken
twins fail the tests.
"""

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import dns.rcode
import dns.update
import pytest
from sqlalchemy import func, select

from sublet.db import Tx
from sublet.dns.types import Primary
from sublet.platform_domains.zone_store import zone_updates
from sublet.primaries import update as update_module
from sublet.primaries.primary import send_update
from sublet.primaries.publisher_transactions import Result
from sublet.structs import replace
from support.dns_proxy import DnsProxy, dns_proxy
from support.name_servers import KINDS
from support.repetitions import share
from support.running_service import Registrant
from support.service_on_primary import ServiceOn, service_on
from support.waiting import wait_until

pytestmark = pytest.mark.slow

NAME = "n0.example.test"


@contextmanager
def impatient_service(kind: str, folder: Path) -> Iterator[tuple[ServiceOn, Registrant]]:
    """Run a service with a short timeout of updates, which retries at once."""
    with (
        service_on(kind, folder, publish_wait_ms=0) as on,
        pytest.MonkeyPatch.context() as patch,  # after that of `service_on`
    ):
        patch.setattr("sublet.primaries.primary_zone.TIMEOUT_SECONDS", 0.3)
        patch.setattr("sublet.primaries.publisher_transactions.ZONE_BACK_OFF_MAX_SECONDS", 0.1)
        ada = on.service.add_user()
        on.service.register(ada, NAME, nameservers=["ns0.provider.example"])
        wait_until(lambda: len(on.records()) == 1)
        yield on, ada


@contextmanager
def _through_proxy(on: ServiceOn, monkeypatch: pytest.MonkeyPatch) -> Iterator[DnsProxy]:
    """Have the publisher's updates go through a proxy."""
    with dns_proxy((on.primary.address, on.primary.port)) as proxy:

        async def send(primary: Primary, *args: Any, **kwargs: Any) -> None:
            passing = replace(primary, address=proxy.address[0], port=proxy.address[1])
            await send_update(passing, *args, **kwargs)

        monkeypatch.setattr("sublet.primaries.primary_zone.send_update", send)
        yield proxy


def _late_update(on: ServiceOn, ada: Registrant, proxy: DnsProxy) -> dns.rcode.Rcode:
    """Hold an update, let a newer one be applied, then deliver the older one.

    Return the server's answer to it.
    """
    on.wait_until_active(ada, NAME)
    proxy.hold_next_update()
    _put(on, ada, "ns1.old.example")
    wait_until(lambda: len(proxy.held) == 1)
    _put(on, ada, "ns1.new.example")
    on.wait_until_active(ada, NAME)
    assert (NAME, "NS", "ns1.new.example.") in on.records()
    rcode = proxy.deliver(proxy.held[0]).rcode()
    found = {rdata for owner, _, rdata in on.records() if owner == NAME}
    assert found == {"ns1.new.example."}, found
    assert on.shown(ada, NAME)["status"] == "active"
    return rcode


def _put(on: ServiceOn, ada: Registrant, nameserver: str) -> None:
    body = {"nameservers": [nameserver]}
    assert on.service.call(ada, "PUT", f"/subdomains/{NAME}/nameservers", body).status_code == 200


@pytest.mark.parametrize("kind", share(KINDS[:1], whole=KINDS))
def test_a_late_update_is_refused(kind: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    with (
        impatient_service(kind, tmp_path) as (on, ada),
        _through_proxy(on, monkeypatch) as proxy,
    ):
        assert _late_update(on, ada, proxy) == dns.rcode.NXRRSET
        # The registry continues normally.
        _put(on, ada, "ns1.last.example")
        wait_until(lambda: (NAME, "NS", "ns1.last.example.") in on.records())


@pytest.mark.whole
@pytest.mark.parametrize("kind", KINDS)
def test_without_the_fence_a_late_update_restores_the_old_delegation(
    kind: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The broken twin: the same messages without the fence as a prerequisite."""
    build = update_module.build_update

    def unfenced(*args: Any, **kwargs: Any) -> dns.update.UpdateMessage:
        message = build(*args, **kwargs)
        message.prerequisite.clear()
        return message

    monkeypatch.setattr("sublet.primaries.primary_zone.build_update", unfenced)
    with (
        impatient_service(kind, tmp_path) as (on, ada),
        _through_proxy(on, monkeypatch) as proxy,
        pytest.raises(AssertionError, match=r"ns1\.old\.example"),
    ):
        _late_update(on, ada, proxy)


def test_a_partly_applied_update_is_not_active(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    assert _is_shown_active_in_part(tmp_path, monkeypatch) is False


@pytest.mark.whole
def test_without_the_read_back_a_partly_applied_update_is_active(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The broken twin believes NOERROR."""
    monkeypatch.setattr(
        "sublet.primaries.primary_zone.judge", lambda item, _served, serial: Result(item, serial=serial)
    )
    assert _is_shown_active_in_part(tmp_path, monkeypatch) is True


def _is_shown_active_in_part(folder: Path, monkeypatch: pytest.MonkeyPatch) -> bool:
    """Publish four nameservers on a BIND that keeps two of them and answers NOERROR.

    Return True if the name is shown as active.
    """
    with impatient_service("bind", folder) as (on, ada):
        server = on.primary
        server.stop()
        configuration = Path(server.configuration)
        text = configuration.read_text(encoding="utf-8")
        allowed = f"wildcard *.{server.zone} NS "
        assert allowed in text
        configuration.write_text(text.replace(allowed, allowed.replace("NS", "NS(2)")), encoding="utf-8")
        server.start()
        nameservers = [f"ns{number}.provider.example" for number in range(4)]
        on.service.call(ada, "PUT", f"/subdomains/{NAME}/nameservers", {"nameservers": nameservers})
        wait_until(lambda: on.shown(ada, NAME)["status"] != "provisioning" and _served(on) == 2)
        shown = on.shown(ada, NAME)
        if shown["status"] == "failed":
            assert "not serve all of it" in str(shown["provision_error"])
        return bool(shown["status"] == "active")


def _served(on: ServiceOn) -> int:
    return len([rdata for owner, _, rdata in on.records() if owner == NAME])


def test_updates_that_could_not_be_sent_are_not_stored(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Otherwise a server that is down for days would leave a row for each attempt."""
    with impatient_service("knot", tmp_path) as (on, ada):
        on.primary.kill()
        _put(on, ada, "ns1.new.example")
        wait_until(lambda: on.state().attempts >= 5)
        # One update may have just begun, and one may have been in flight when the server died.
        assert on.service.read(_count_updates) <= 2
        on.primary.start()
        on.wait_until_active(ada, NAME)
        assert on.service.read(_count_updates) == 0


def _count_updates(tx: Tx) -> int:
    return int(tx.connection.execute(select(func.count()).select_from(zone_updates)).scalar_one())
