"""All roles in separate processes with one PostgreSQL: the name servers serve at once what another process
registers.
"""

from pathlib import Path

import pytest

from support.role_processes import apart

pytestmark = pytest.mark.slow

NAMESERVERS = ["ns1.provider.example", "ns2.provider.example"]


def test_a_registration_is_served_by_every_name_server_that_runs(
    postgresql_server: str, tmp_path: Path
) -> None:
    with apart(postgresql_server, tmp_path, name_servers=2) as roles:
        roles.start_all(workers=2)
        service = roles.service
        ada = service.add_user()

        def register(label: str) -> list[bool | None]:
            """Register a name, which becomes active, and return for each name server whether it matches; None
            without an answer.
            """
            name = f"{label}.example.test"
            registered = service.register(ada, name, nameservers=NAMESERVERS)
            assert registered["subdomain"]["status"] == "active"
            told = service.call(ada, "GET", f"/subdomains/{name}/delegation").json()["delegation"]
            assert {each["role"] for each in told["servers"]} == {"built_in"}
            matches = [each["matches"] for each in told["servers"]]
            assert told["in_agreement"] or None in matches
            return matches

        assert register("blog") == [True, True]
        for address in roles.name_servers:
            service.dns = address
            assert service.delegation("blog.example.test") == set(NAMESERVERS)
        # A name server that doesn't run delays no registration.
        first, second = roles.started[:2]
        assert first.end() == 0
        assert register("wiki") == [None, True]
        service.dns = roles.name_servers[1]
        assert service.delegation("wiki.example.test") == set(NAMESERVERS)
        assert second.end() == 0
        assert register("shop") == [None, None]
        assert service.doctor() == []
