"""The Terraform provider under real Terraform, against the real service and its DNS."""

from pathlib import Path

import pytest

from support.running_service import Registrant, RunningService
from support.terraform import Terraform

DS = "2371 13 2 1f987cc6583e92df0890718c42a1d3b1a1f4b4a6b2d8a1dd09a4c1d7f4d3e5a6"
NS = {"ns1.provider.example", "ns2.provider.example"}
BLOG = """
resource "sublet_subdomain" "blog" {
  fqdn        = "Blog.Example.Test."
  nameservers = ["NS2.provider.example.", "ns1.provider.example"]
}
"""


@pytest.fixture
def who(service: RunningService) -> Registrant:
    service.add_domain()
    return service.add_user(credit_count=25)


@pytest.fixture
def terraform(service: RunningService, who: Registrant, tmp_path: Path) -> Terraform:
    folder = tmp_path / "terraform"
    folder.mkdir()
    return Terraform(folder, service.base_url, who.token)


def test_a_name_from_apply_to_destroy(
    service: RunningService, who: Registrant, terraform: Terraform
) -> None:
    terraform.write(BLOG)
    terraform.apply()
    assert service.delegation("blog.example.test") == NS
    assert terraform.is_planned_empty()

    terraform.write(
        BLOG.replace(
            '"ns1.provider.example"]',
            f'"ns1.blog.example.test"]\n  glue = {{ "NS1.blog.example.test" = ["8.8.4.4"] }}\n  ds_records = ["{DS.upper()}"]\n  auto_renew = true',
        )
    )
    assert terraform.planned() == {"sublet_subdomain.blog": ["update"]}
    terraform.apply()
    assert service.delegation("blog.example.test") == {"ns2.provider.example", "ns1.blog.example.test"}
    assert "8.8.4.4" in service.dig("blog.example.test")
    assert terraform.is_planned_empty()

    service.call(who, "PUT", "/subdomains/blog.example.test/nameservers", {"nameservers": ["ns9.provider.example"], "ds_records": []})
    assert terraform.planned() == {"sublet_subdomain.blog": ["update"]}
    terraform.apply()
    assert service.delegation("blog.example.test") == {"ns2.provider.example", "ns1.blog.example.test"}

    terraform.run("destroy", "-auto-approve")
    assert service.delegation("blog.example.test") == set()
    trashed = service.list_all(who, "/subdomains?status=trashed", "subdomains")
    assert [each["fqdn"] for each in trashed] == ["blog.example.test"]

    terraform.write(BLOG)
    terraform.apply()  # back from the trash
    assert service.delegation("blog.example.test") == NS
    assert terraform.is_planned_empty()


def test_nothing_is_paid_without_max_credits(
    service: RunningService, who: Registrant, terraform: Terraform
) -> None:
    shop = 'resource "sublet_subdomain" "shop" {\n  fqdn = "shop.example.test"\n  registration_mode = "plus"\nLIMIT}\n'
    terraform.write(shop.replace("LIMIT", ""))
    assert "shop.example.test costs 10 credits, and max_credits is 0." in terraform.refused()
    terraform.refused("apply")
    assert service.call(who, "GET", "/credits").json()["credit_balance"] == 25
    terraform.write(shop.replace("LIMIT", "max_credits = 20\n"))
    assert "price_credits     = 10" in terraform.run("plan", "-no-color").text
    terraform.apply()
    assert service.call(who, "GET", "/credits").json()["credit_balance"] == 15
    assert terraform.is_planned_empty()
