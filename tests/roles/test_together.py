"""All roles in separate processes with one PostgreSQL: the name servers serve at once what another process registers."""

from pathlib import Path

import pytest

from support.role_processes import apart

pytestmark = pytest.mark.slow

NAMESERVERS = ["ns1.provider.example", "ns2.provider.example"]


def test_a_registration_is_served_by_every_name_server(postgresql_server: str, tmp_path: Path) -> None:
    with apart(postgresql_server, tmp_path, name_servers=2) as roles:
        roles.start_all(workers=2)
        service = roles.service
        ada = service.add_user()
        registered = service.register(ada, "blog.example.test", nameservers=NAMESERVERS)
        assert registered["subdomain"]["status"] == "active"
        for address in roles.name_servers:
            service.dns = address
            assert service.delegation("blog.example.test") == set(NAMESERVERS)
        told = service.call(ada, "GET", "/subdomains/blog.example.test/delegation").json()["delegation"]
        assert [(each["role"], each["matches"]) for each in told["servers"]] == [("built_in", True)] * 2
        assert told["in_agreement"]
        assert service.doctor() == []


def test_a_stopped_name_server_delays_no_registration(postgresql_server: str, tmp_path: Path) -> None:
    with apart(postgresql_server, tmp_path, name_servers=2) as roles:
        roles.start_all(workers=1)
        service = roles.service
        ada = service.add_user()
        first, second = roles.started[:2]
        assert first.end() == 0
        service.dns = roles.name_servers[1]
        registered = service.register(ada, "blog.example.test", nameservers=NAMESERVERS)
        assert registered["subdomain"]["status"] == "active"
        assert service.delegation("blog.example.test") == set(NAMESERVERS)
        told = service.call(ada, "GET", "/subdomains/blog.example.test/delegation").json()["delegation"]
        assert [each["matches"] for each in told["servers"]] == [None, True]
        assert second.end() == 0
        registered = service.register(ada, "wiki.example.test", nameservers=NAMESERVERS)
        assert registered["subdomain"]["status"] == "active"
        told = service.call(ada, "GET", "/subdomains/wiki.example.test/delegation").json()["delegation"]
        assert [each["matches"] for each in told["servers"]] == [None, None]
