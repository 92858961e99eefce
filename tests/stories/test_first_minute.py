"""The story of the first minute: register, see it in the DNS, pay, delete, restore; on both databases."""

from support.running_service import DS, running_service


def test_first_minute(registry_url: str) -> None:
    with running_service(registry_url) as service:
        service.add_domain("example.test")
        ada = service.add_user(credit_count=25)
        glue = [{"host": "ns1.blog.example.test", "ipv4": "8.8.4.4"}]
        nameservers = ["ns1.provider.example", "ns1.blog.example.test"]
        answer = service.register(
            ada, "blog.example.test", nameservers=nameservers, glue=glue, ds_records=[DS]
        )
        assert answer["subdomain"]["status"] == "active"
        assert answer["provisioning"]["status"] == "published"
        assert service.delegation("blog.example.test") == set(nameservers)
        quoted = service.call(
            ada, "POST", "/subdomains", {"fqdn": "shop.example.test", "registration_mode": "plus"}
        )
        assert (quoted.status_code, quoted.json()["quote"]["price"]) == (402, 10)
        paid = service.register(ada, "shop.example.test", registration_mode="plus", confirm=True)
        assert paid["charged_credits"] == 10
        assert service.call(ada, "GET", "/credits").json()["credit_balance"] == 15
        assert service.call(ada, "DELETE", "/subdomains/blog.example.test").status_code == 200
        restored = service.call(ada, "POST", "/subdomains/blog.example.test/restore")
        assert (restored.status_code, restored.json()["subdomain"]["status"]) == (200, "active")
        assert service.delegation("blog.example.test") == set(nameservers)
        assert service.doctor() == []
