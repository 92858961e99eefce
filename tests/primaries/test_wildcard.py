"""A wildcard that the operator added to the zone does not prevent the removal of a name."""

from pathlib import Path

import pytest

from sublet.dns.types import Record
from sublet.platform_domains import zone_store
from sublet.platform_domains.platform_domain import find_platform_domain
from sublet.primaries import store as publish_store
from support.name_servers import KINDS
from support.repetitions import share
from support.service_on_primary import BUILT_IN, ZONE, service_on
from support.waiting import wait_until

pytestmark = pytest.mark.slow
NAME = f"shop.{ZONE}"
HOST = f"ns1.{NAME}"
WILDCARD = Record(f"*.{ZONE}", "A", 300, "192.0.2.80")


@pytest.mark.parametrize("kind", share((BUILT_IN, "knot"), whole=(BUILT_IN, *KINDS)))
def test_a_name_under_a_wildcard_is_removed(kind: str, tmp_path: Path) -> None:
    with service_on(kind, tmp_path) as on:
        if on.server is None:
            on.service.write(
                lambda tx: zone_store.insert_records(tx, find_platform_domain(tx, ZONE).id, [WILDCARD])
            )
        else:
            # The second record would count as the fence, which doesn't exist yet.
            on.server.nsupdate(
                [f"add {WILDCARD.owner}. 300 A {WILDCARD.rdata}", f"add {WILDCARD.owner}. 300 TXT hand"]
            )
        ada = on.service.add_user()
        on.service.register(ada, NAME, nameservers=[HOST], glue=[{"host": HOST, "ipv4": "9.9.9.9"}])
        wait_until(lambda: (HOST, "A", "9.9.9.9") in on.records())
        assert on.service.call(ada, "DELETE", f"/subdomains/{NAME}").status_code == 200
        wait_until(lambda: on.service.read(publish_store.count_waiting) == {})
        # A record of the wildcard at the former host isn't left over; a record added there by hand is.
        assert on.service.call(ada, "GET", f"/subdomains/{NAME}/delegation").json()["delegation"][
            "in_agreement"
        ]
        if on.server is not None:
            on.server.nsupdate([f"add {HOST}. 3600 A 9.9.9.9"])
            shown = on.service.call(ada, "GET", f"/subdomains/{NAME}/delegation").json()["delegation"]
            assert "9.9.9.9" in shown["servers"][0]["difference"], shown
            on.server.nsupdate([f"delete {HOST}. A"])
        assert {each for each in on.records() if each[1] != "TXT"} == {(WILDCARD.owner, "A", WILDCARD.rdata)}
