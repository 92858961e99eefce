"""The Terraform provider under real Terraform, against the real service and its DNS."""

import random
import re
import subprocess
import sys
from pathlib import Path

import pytest
from tf.utils import Diagnostics

from sublet_client import UnexpectedAnswer
from sublet_client._sync import AccountMethods
from sublet_terraform.provider import SubletProvider
from sublet_terraform.reporting import Reporting
from support.configurations import DOMAIN, check_terraform, draw_configuration
from support.running_service import DS, Registrant, RunningService
from support.terraform import Terraform

README = Path(__file__).resolve().parents[2] / "clients/terraform/README.md"
NS = {"ns1.provider.example", "ns2.provider.example"}
BLOG = """
resource "sublet_subdomain" "blog" {
  fqdn        = "Blog.Example.Test."
  nameservers = ["NS2.provider.example.", "ns1.provider.example"]
}
"""
SIGNED = f"""
resource "sublet_subdomain" "blog" {{
  fqdn        = "blog.example.test"
  nameservers = ["NS2.provider.example.", "ns1.blog.example.test"]
  glue        = {{ "NS1.blog.example.test" = ["8.8.4.4", "2001:4860:4860::0:8844"] }}
  ds_records  = ["{DS.upper()}"]
  auto_renew  = true
}}
"""
SIGNED_NS = {"ns2.provider.example", "ns1.blog.example.test"}
SHOP = """
resource "sublet_subdomain" "shop" {
  fqdn              = "shop.example.test"
  registration_mode = "plus"
  max_credits       = LIMIT
}
"""
OTHERS = """
resource "sublet_token" "ci" {
  name     = "ci"
  scopes   = ["subdomains:write", "subdomains:read"]
  names    = ["*.Example.test"]
  rotation = "ROTATION"
}
resource "sublet_transfer" "gift" {
  fqdn = sublet_subdomain.blog.fqdn
  to   = "Grace@example.org"
}
import {
  to = sublet_subdomain.old
  id = "OLD.example.test"
}
resource "sublet_subdomain" "old" {
  fqdn        = "old.example.test"
  nameservers = ["ns1.provider.example"]
}
data "sublet_subdomain" "blog" {
  fqdn = sublet_subdomain.blog.fqdn
}
data "sublet_platform_domain" "ours" {
  domain = "example.test"
}
data "sublet_availability" "taken" {
  fqdn = "old.example.test"
}
data "sublet_platform_domains" "all" {}
data "sublet_account" "me" {}
resource "sublet_subdomain" "gift" {
  fqdn              = "gift.example.test"
  registration_mode = "plus"
  max_credits       = 5
  coupon_code       = "welcome "
}
resource "sublet_organization" "guild" {
  name = "Guild"
}
resource "sublet_organization_member" "bob" {
  organization_id = sublet_organization.guild.id
  email           = " Bob@Example.org"
  role            = "member"
}
resource "sublet_token" "guild" {
  organization_id = sublet_organization.guild.id
  name            = "guild"
  scopes          = ["subdomains:read"]
}
data "sublet_organization" "guild" {
  id = sublet_organization.guild.id
}
data "sublet_organizations" "all" {
  depends_on = [sublet_organization.guild]
}
"""
RECORDS = """
resource "sublet_subdomain" "site" {
  fqdn = "site.example.test"
}
resource "sublet_records" "site" {
  fqdn   = sublet_subdomain.site.fqdn
  name   = "Site.example.test."
  type   = "a"
  values = ["8.8.8.8", "8.8.4.4"]
}
resource "sublet_records" "https" {
  fqdn   = upper(sublet_subdomain.site.fqdn)
  name   = "@"
  type   = "https"
  values = ["1 . ipv4hint=8.8.4.4 mandatory=alpn alpn=h2"]
  ttl    = 60
}
resource "sublet_records" "txt" {
  for_each = toset(["a", "b", "c", "d"])
  fqdn     = sublet_subdomain.site.fqdn
  name     = each.key
  type     = "TXT"
  values   = ["v=${each.key}; x"]
}
resource "sublet_token" "certificates" {
  name         = "certificates"
  scopes       = ["records:write"]
  record_names = ["_ACME-challenge", "_acme-challenge.*"]
}
"""
IMPORTS = """
import {
  to = sublet_records.site
  id = "SITE.example.test/@/TYPE1"
}
import {
  to = sublet_records.https
  id = "site.example.test/site.example.test./https"
}
"""
WRONG_RECORDS = """
resource "sublet_records" "wrong" {
  for_each = { ns = "ns1.provider.example", a = "8.8.4", cname = "www", txt = "\\"x" }
  fqdn     = "site.example.test"
  name     = "a..b"
  type     = each.key
  values   = [each.value]
}
resource "sublet_records" "address" {
  fqdn   = "site.example.test"
  name   = "a..b"
  type   = "A"
  values = ["8.8.4", "2001:db8::1"]
  ttl    = 1
}
resource "sublet_records" "ns" {
  fqdn   = "site.example.test"
  name   = "@"
  type   = "NS"
  values = ["ns1.provider.example"]
}
"""
NONSENSE = """
resource "sublet_subdomain" "blog" {
  fqdn              = "blog.example.test"
  registration_mode = "gold"
  ds_records        = ["nonsense", "2371 13 1 abcd", "2371 13 2 1f98", "99999 13 2 DIGEST", "2371 13 2 DIGEST"]
}
resource "sublet_token" "ci" {
  name   = "ci"
  scopes = ["subdomains:read", "names:read"]
}
resource "sublet_token" "soon" {
  name       = "soon"
  scopes     = ["subdomains:read"]
  expires_at = "tomorrow"
}
resource "sublet_organization_member" "bob" {
  organization_id = "guild"
  email           = "bob"
  role            = "boss"
}
""".replace("DIGEST", DS.split()[-1])  # noqa: E501
UNREACHABLE = """
resource "sublet_subdomain" "www" {
  fqdn = "www.example.test"
}
resource "sublet_subdomain" "old" {
  fqdn = "Old.example.test."
}
resource "sublet_subdomain" "elsewhere" {
  fqdn = "blog.example.org"
}
data "sublet_platform_domain" "elsewhere" {
  domain = "example.org"
}
resource "sublet_subdomain" "free" {
  for_each = toset(["a", "b", "c", "d", "e"])
  fqdn     = "${each.key}.example.test"
}
resource "sublet_subdomain" "plus" {
  for_each          = toset(["f", "g", "h"])
  fqdn              = "${each.key}.example.test"
  registration_mode = "plus"
  max_credits       = 10
}
"""
FREE = """
resource "sublet_subdomain" "free" {
  fqdn              = "free.example.test"
  registration_mode = "free"
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


def test_a_name_and_its_records_from_apply_to_destroy(
    service: RunningService, who: Registrant, terraform: Terraform
) -> None:
    service.operator("domain", "edit", "example.test", "--records", "on")
    terraform.write(WRONG_RECORDS)
    sentences = terraform.refused("validate")
    assert "`8.8.4` is not an IP address" in sentences
    assert "`2001:db8::1` is no address of A records" in sentences
    assert "`NS` is not a type that a name may have" in sentences
    assert "A TTL of 1 seconds is not allowed" in sentences
    assert re.search(r'in resource "sublet_records" "address": \d+: name = "a..b"', sentences)

    terraform.write(BLOG + RECORDS)
    assert "9 added" in terraform.apply()  # the parallel creations lose none
    assert service.delegation("blog.example.test") == NS
    assert sorted(service.dig("site.example.test", "A", "+short").split()) == ["8.8.4.4", "8.8.8.8"]
    path = "/subdomains/site.example.test/records"
    assert len(service.call(who, "GET", path).json()["records"]) == 6

    changed = RECORDS.replace('"8.8.8.8", "8.8.4.4"', '"8.8.4.4"').replace("ttl    = 60", "ttl    = 600")
    terraform.write(SIGNED + changed)
    assert "0 added, 3 changed, 0 destroyed" in terraform.apply()
    assert service.delegation("blog.example.test") == SIGNED_NS
    assert "8.8.4.4" in service.dig("blog.example.test")
    renewal = service.call(who, "GET", "/subdomains/blog.example.test/auto-renew").json()["auto_renew"]
    assert (renewal["enabled"], renewal["max_credits"]) == (True, 0)
    assert service.dig("site.example.test", "A", "+short").split() == ["8.8.4.4"]
    assert terraform.planned() == {}

    _drift(service, who)
    assert terraform.planned() == dict.fromkeys(
        ("sublet_subdomain.blog", "sublet_records.site"), "updated in-place"
    )
    terraform.apply()
    assert service.delegation("blog.example.test") == SIGNED_NS

    terraform.run("state", "rm", "sublet_records.site", "sublet_records.https")
    refused = terraform.refused("apply")
    assert "Import them: terraform import sublet_records.NAME 'site.example.test/@/A'" in refused
    terraform.write(SIGNED + changed + IMPORTS)
    assert "2 imported, 0 added" in terraform.apply()
    assert terraform.planned() == {}

    terraform.write(SIGNED + changed.partition('resource "sublet_records"')[0])
    terraform.apply()
    left = service.call(who, "GET", path).json()["records"]
    assert [each["name"] for each in left] == ["e"], "what it has not created stays"

    own = terraform.environment["SUBLET_TOKEN"]
    words = ("token", "issue", who.email, "--name", "part", "--only-name", "x.example.test")
    terraform.environment["SUBLET_TOKEN"] = service.operator(*words)["token"]
    terraform.write("")
    refused = terraform.refused("apply")
    for each in ("blog.example.test", "site.example.test"):  # hidden from this token, but not gone
        assert f"This token may not be used for {each}" in refused
    terraform.environment["SUBLET_TOKEN"] = own
    terraform.apply("-destroy")
    assert service.delegation("blog.example.test") == set()
    trashed = service.list_all(who, "/subdomains?status=trashed", "subdomains")
    assert {each["fqdn"] for each in trashed} == {"blog.example.test", "site.example.test"}


def _drift(service: RunningService, who: Registrant) -> None:
    """Change a name and its records without Terraform."""
    delegation = {"nameservers": ["ns9.provider.example"], "glue": [], "ds_records": []}
    service.call(who, "PUT", "/subdomains/blog.example.test/nameservers", delegation)
    records = [
        {"name": "@", "type": "A", "values": ["8.8.8.8"]},
        {"name": "e", "type": "TXT", "values": ["x"]},
    ]
    path = "/subdomains/site.example.test/records"
    assert service.call(who, "PATCH", path, {"records": records}).status_code == 200


def test_nothing_is_paid_without_max_credits(
    service: RunningService, who: Registrant, terraform: Terraform
) -> None:
    terraform.write(SHOP.replace("LIMIT", "9"))
    sentences = terraform.refused("apply")
    assert "shop.example.test costs 10 credits, and max_credits is 9. Set max_credits to 10" in sentences
    assert "max_credits = 9" in sentences
    assert service.call(who, "GET", "/credits").json()["credit_balance"] == 25
    terraform.write(SHOP.replace("LIMIT", "20"))
    assert "+ price_credits     = 10\n" in terraform.apply()
    assert service.call(who, "GET", "/credits").json()["credit_balance"] == 15


@pytest.mark.whole
def test_a_price_that_rose_after_the_plan_is_not_paid(
    service: RunningService, who: Registrant, terraform: Terraform
) -> None:
    terraform.write(SHOP.replace("LIMIT", "20"))
    terraform.run("plan", "-out=plan.bin")
    options = ("--mode", "plus", "--price", "11", "--renewal-price", "10", "--period-days", "365")
    service.operator("domain", "offer", "example.test", *options)
    result = terraform.run("apply", "-no-color", "plan.bin")
    assert result.code == 1
    assert "was cty.NumberIntVal(10), but now cty.NumberIntVal(11)" in " ".join(result.text.split())
    assert service.call(who, "GET", "/credits").json()["credit_balance"] == 25


@pytest.mark.whole
def test_all_other_resources_from_apply_to_destroy(
    service: RunningService, who: Registrant, terraform: Terraform
) -> None:
    service.operator("coupon", "add", "WELCOME", "--percent", "50")
    service.register(who, "old.example.test", nameservers=["ns1.provider.example"])
    terraform.write(BLOG + OTHERS.replace("ROTATION", "1"))
    printed = terraform.apply()
    assert "1 imported, 7 added, 0 changed" in printed
    secret = terraform.state("sublet_token.ci")["secret"]
    assert secret not in printed
    assert service.call(secret, "GET", "/subdomains").status_code == 200
    assert terraform.state("sublet_transfer.gift")["state"] == "pending"
    assert set(terraform.state("data.sublet_subdomain.blog")["nameservers"]) == NS
    assert terraform.state("data.sublet_platform_domain.ours")["prices"] == {"free": 0, "plus": 10}
    assert terraform.state("data.sublet_availability.taken")["reason"] == "subdomain_unavailable"
    assert terraform.state("data.sublet_platform_domains.all")["domains"] == ["example.test"]
    me = terraform.state("data.sublet_account.me")
    assert (me["credit_balance"], me["token_id"]) == (25, "1")
    assert terraform.state("sublet_subdomain.gift")["price_credits"] == 5
    assert service.call(who, "GET", "/credits").json()["credit_balance"] == 20
    assert terraform.state("sublet_organization_member.bob")["state"] == "invited"
    guild = terraform.state("sublet_organization.guild")
    assert terraform.state("data.sublet_organizations.all")["ids"][guild["slug"]] == guild["id"]
    assert terraform.state("data.sublet_organization.guild")["members"] == {who.email: "owner"}
    shown = service.call(terraform.state("sublet_token.guild")["secret"], "GET", "/me").json()
    assert shown["organization"]["name"] == "Guild"
    assert terraform.planned() == {}

    terraform.write(BLOG + OTHERS.replace("ROTATION", "2"))
    terraform.apply()
    assert terraform.state("sublet_token.ci")["secret"] != secret
    terraform.apply("-destroy")
    tokens = service.list_all(who, "/tokens", "tokens")
    assert all(each["revoked_at"] for each in tokens if each["name"] in ("ci", "guild"))
    assert service.call(who, "GET", "/transfers").json()["transfers"][0]["state"] == "withdrawn"


@pytest.mark.whole
def test_an_organization_changes_is_imported_and_keeps_its_names(
    service: RunningService, who: Registrant, terraform: Terraform
) -> None:
    block = OTHERS[OTHERS.index('resource "sublet_organization" "guild"') :]
    terraform.write(block)
    terraform.apply()
    guild = terraform.state("sublet_organization.guild")["id"]
    block = block.replace('"member"', '"viewer"').replace('"Guild"', '"The Guild"')
    terraform.write(block)
    assert "2 changed" in terraform.apply()
    service.add_user("bob@example.org")
    service.operator(
        "organization",
        "set-role",
        guild,
        "--user",
        "bob@example.org",
        "--role",
        "billing",
        "--reason",
        "test",
    )
    terraform.apply()
    members = service.call(who, "GET", f"/organizations/{guild}/members").json()["members"]
    assert {each["email"]: each["role"] for each in members} == {
        who.email: "owner",
        "bob@example.org": "viewer",
    }

    imports = {
        "sublet_organization.guild": guild,
        "sublet_organization_member.bob": f"{guild}/BOB@example.org",
    }
    terraform.run("state", "rm", *imports)
    refused = terraform.run("import", "-no-color", "sublet_organization_member.bob", "guild")
    assert "can't be imported by `guild`: `guild` is not an id" in " ".join(refused.text.split())
    for address, identifier in imports.items():
        done = terraform.run("import", "-no-color", address, identifier)
        assert done.code == 0, done.text
    assert terraform.planned() == {}

    token = service.token_for(who, int(guild))
    service.register(token, "guild.example.test", nameservers=sorted(NS))
    assert (
        "The Guild still has names or credits, which would be lost: 1 names, 0 credits"
        in terraform.refused("destroy")
    )
    assert service.delegation("guild.example.test") == NS
    service.call(token, "DELETE", "/subdomains/guild.example.test")
    terraform.apply("-destroy")
    assert service.call(who, "GET", f"/organizations/{guild}").status_code == 404


@pytest.mark.whole
def test_a_failure_after_a_registration_is_left_to_the_next_plan(
    service: RunningService, who: Registrant, terraform: Terraform
) -> None:
    """The name is neither lost from the state nor tainted: a tainted name would be destroyed, and leave the
    DNS.
    """
    service.register(who, "back.example.test")  # comes back from the trash
    service.call(who, "DELETE", "/subdomains/back.example.test")
    block = BLOG.replace("  nameservers", "  max_credits = 10\n  auto_renew  = true\n  nameservers")
    block += block.replace("Blog", "back").replace("blog", "back")
    terraform.environment["SUBLET_TOKEN"] = service.issue_token(
        who.email, "account:read", "subdomains:read", "subdomains:write"
    )
    terraform.write(block)
    printed = " ".join(terraform.apply().replace("│", " ").split())
    assert "Warning: Blog.Example.Test. is yours, but: " in printed
    assert "Warning: back.Example.Test. is yours, but: " in printed
    assert "The next plan shows what is left to change." in printed
    assert service.delegation("blog.example.test") == service.delegation("back.example.test") == NS

    terraform.environment["SUBLET_TOKEN"] = who.token
    names = {"sublet_subdomain.blog", "sublet_subdomain.back"}
    assert terraform.planned() == dict.fromkeys(names, "updated in-place")
    terraform.apply()
    renewal = service.call(who, "GET", "/subdomains/blog.example.test/auto-renew").json()["auto_renew"]
    assert (renewal["enabled"], renewal["max_credits"]) == (True, 10)
    assert service.delegation("blog.example.test") == NS


def test_wrong_values_and_unavailable_names_fail_in_the_plan(
    service: RunningService, who: Registrant, terraform: Terraform
) -> None:
    terraform.write(NONSENSE)
    sentences = terraform.refused("validate")
    assert "There is no mode gold. Use one of free, plus, premium, special" in sentences
    assert "There is no scope `names:read`. Use some of account:read" in sentences
    assert re.search(r'in resource "sublet_token" "soon": \d+: expires_at = "tomorrow"', sentences)
    assert "`tomorrow` is not an instant of RFC 3339" in sentences
    assert "`guild` is not an id" in sentences
    assert "`bob` is not a mail address" in sentences

    service.register(who, "old.example.test")
    terraform.write(UNREACHABLE)
    sentences = terraform.refused()
    assert "www.example.test can't be registered: it is taken, reserved, or not free again yet" in sentences
    assert "Import it: terraform import sublet_subdomain.NAME old.example.test" in sentences
    assert "Choose one from the list of platform domains" in sentences
    assert "There is no platform domain example.org" in sentences
    assert "more free names than you have left (4 of 5)" in sentences
    assert "cost more than the balance of 25 credits" in sentences

    for label in "abcd":
        service.register(who, f"{label}.example.test")
    terraform.write(FREE + FREE.replace("registration_mode", "# ").replace("free", "any"))
    sentences = terraform.refused()
    assert "Error: 5 of 5 free names are in use. Destroy one, or use the mode plus." in sentences
    assert "Error: 5 of 5 free names are in use. Destroy one, or pay: any.example.test costs 10" in sentences


def test_a_proxy_without_a_registry_and_a_wrong_value_are_told_apart(monkeypatch: pytest.MonkeyPatch) -> None:
    def busy(_client: AccountMethods) -> None:
        raise UnexpectedAnswer("It answered with the status 502. Try again later.")

    monkeypatch.setattr(AccountMethods, "me", busy)
    diagnostics = Diagnostics()
    provider = SubletProvider()
    provider.configure_provider(diagnostics, {"url": "http://127.0.0.1:9", "token": "sublet_x"})
    assert provider.client is not None
    with Reporting(diagnostics, set()):
        provider.client.subdomains.get("..")
    assert [each.summary for each in diagnostics.diagnostics] == [
        "It answered with the status 502. Try again later.",
        "The fqdn `..` is empty, only dots, or has a slash. Check it.",
    ]


@pytest.mark.whole
def test_the_provider_explains_its_settings(terraform: Terraform) -> None:
    terraform.environment["SUBLET_TOKEN"] = ""
    terraform.write(BLOG)
    assert "Error: Set SUBLET_TOKEN, or token in the block" in terraform.refused()
    program = Path(sys.executable).parent / "terraform-provider-sublet"
    done = subprocess.run([program, "--help"], capture_output=True, text=True, check=True)
    assert "Terraform and OpenTofu start this program" in done.stdout


@pytest.mark.whole
def test_a_name_is_replaced_and_not_adopted_silently(service: RunningService, terraform: Terraform) -> None:
    terraform.write(BLOG)
    terraform.apply()
    terraform.apply("-replace=sublet_subdomain.blog")
    terraform.run("taint", "sublet_subdomain.blog")
    assert "1 added, 0 changed, 1 destroyed" in terraform.apply()
    assert service.delegation("blog.example.test") == NS
    terraform.run("state", "rm", "sublet_subdomain.blog")
    assert "You hold blog.example.test already. Import it: terraform import" in terraform.refused("apply")


@pytest.mark.whole
def test_random_configurations_need_no_change_after_apply_and_import(
    service: RunningService, tmp_path: Path
) -> None:
    service.add_domain(DOMAIN)
    who = service.add_user(credit_count=1000, free_quota="100")
    rng = random.Random(1)  # noqa: S311 - not for secrets
    configurations = [draw_configuration(rng, number) for number in range(5)]
    check_terraform(Terraform(tmp_path, service.base_url, who.token), configurations, rng)


@pytest.mark.whole
def test_terraform_installs_the_provider_from_its_mirror(
    service: RunningService, who: Registrant, tmp_path: Path
) -> None:
    """The README's resource with `prevent_destroy`, without an override for developers."""
    terraform = Terraform(tmp_path, service.base_url, who.token)
    terraform.use_mirror()
    (block,) = re.findall(
        r"^resource \"sublet_subdomain\" \"live\" \{.*?^\}",
        README.read_text(encoding="utf-8"),
        re.DOTALL | re.MULTILINE,
    )
    terraform.write(block.replace("example.net", "example.test"))
    done = terraform.run("init", "-no-color")
    assert done.code == 0, done.text
    assert "Installed sublet/sublet v0.1.0" in done.text
    assert "development overrides" not in terraform.apply()
    assert service.delegation("live.example.test") == NS
    assert "prevent_destroy" in terraform.refused("destroy")
    assert service.delegation("live.example.test") == NS


@pytest.mark.whole
def test_the_ds_records_of_a_name_follow_its_zone_or_not(
    service: RunningService, who: Registrant, tmp_path: Path
) -> None:
    terraform = Terraform(tmp_path, service.base_url, who.token)
    block = 'resource "sublet_automatic_ds" "blog" {\n  fqdn = "BLOG.example.test."\n  MEMBERS\n}\n'
    service.register(who, "blog.example.test")
    path = "/subdomains/blog.example.test/automatic-ds"
    for members, enabled, bootstrap in (
        ("bootstrap = false", True, False),
        ("enabled = false", False, False),
        ("enabled = true\n  bootstrap = true", True, True),
    ):
        terraform.write(block.replace("MEMBERS", members))
        terraform.apply()
        found = service.call(who, "GET", path).json()["automatic_ds"]
        assert (found["enabled"], found["bootstrap"]) == (enabled, bootstrap)
        assert terraform.planned() == {}
