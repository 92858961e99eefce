"""Every page of the console, and data of a service that fills them, for screenshots and for checks of all
pages.
"""

from dataclasses import dataclass
from pathlib import Path
from typing import Any

from support.browsers import signed_in
from support.running_service import Registrant, RunningService

ADA = "ada@example.org"
DOMAIN = "example.test"

RECORDS = [
    {"name": "@", "type": "A", "values": ["8.8.4.4"]},
    {"name": "@", "type": "MX", "values": ["10 mx1.provider.example.", "20 mx2.provider.example."]},
    {"name": "@", "type": "TXT", "values": ["v=spf1 include:provider.example -all"]},
    {"name": "www", "type": "CNAME", "values": ["my-site.pages.example."]},
]


@dataclass(frozen=True, slots=True)
class ShownPage:
    """A page: its name, its path, whether it is open to all, and whether docs/console/ has its picture."""

    name: str
    path: str
    is_open: bool = False
    has_picture: bool = True


PAGES = (
    ShownPage("start", "/?q=garden", is_open=True),
    ShownPage("sign-in", "/signin", is_open=True),
    ShownPage("sign-in-link", "/signin/confirm?token=x", is_open=True),
    ShownPage("sign-in-done", "/signin/done", has_picture=False),
    ShownPage("about", f"/about/blog.{DOMAIN}", is_open=True),
    ShownPage("reference", "/docs", is_open=True),
    ShownPage("reference-group", "/docs/records"),
    ShownPage("reference-search", "/docs?q=glue", has_picture=False),
    ShownPage("reference-errors", "/docs/errors", is_open=True, has_picture=False),
    ShownPage("names", "/names"),
    ShownPage("no-names", "/names?q=nothing"),
    ShownPage(
        "names-many",
        f"/names/many?do=nameservers&fqdn=blog.{DOMAIN}&fqdn=garden.{DOMAIN}",
        has_picture=False,
    ),
    ShownPage(
        "names-move", f"/names/many?do=move&fqdn=blog.{DOMAIN}&fqdn=garden.{DOMAIN}", has_picture=False
    ),
    ShownPage("invalid-name", "/?q=caf%C3%A9+bar", is_open=True, has_picture=False),
    ShownPage("register", f"/register?fqdn=shop.{DOMAIN}"),
    ShownPage("register-many", "/register/many"),
    ShownPage("name", f"/names/blog.{DOMAIN}"),
    ShownPage("name-with-records", f"/names/site.{DOMAIN}", has_picture=False),
    ShownPage("name-without-records", f"/names/music.{DOMAIN}", has_picture=False),
    ShownPage("records", f"/names/site.{DOMAIN}/records"),
    ShownPage("no-records", f"/names/music.{DOMAIN}/records", has_picture=False),
    ShownPage("records-or-nameservers", f"/names/blog.{DOMAIN}/records", has_picture=False),
    ShownPage("certificate", f"/names/site.{DOMAIN}/certificate"),
    ShownPage("changing-address", f"/names/site.{DOMAIN}/changing-address"),
    ShownPage("delegation-of-records", f"/names/site.{DOMAIN}/delegation", has_picture=False),
    ShownPage("nameservers-or-records", f"/names/site.{DOMAIN}/nameservers", has_picture=False),
    ShownPage("name-in-trash", f"/names/old.{DOMAIN}"),
    ShownPage("delegation", f"/names/blog.{DOMAIN}/delegation"),
    ShownPage("nameservers", f"/names/blog.{DOMAIN}/nameservers"),
    ShownPage("renew", f"/names/blog.{DOMAIN}/renew"),
    ShownPage("delete", f"/names/blog.{DOMAIN}/delete"),
    ShownPage("transfer", f"/names/blog.{DOMAIN}/transfer"),
    ShownPage("credits", "/credits"),
    ShownPage("tickets", "/tickets"),
    ShownPage("ticket-new", "/tickets/new"),
    ShownPage("ticket", "/tickets/T-000001"),
    ShownPage("tokens", "/tokens"),
    ShownPage("token-new", "/tokens/new"),
    ShownPage("token", "/tokens/1"),
    ShownPage("transfers", "/transfers"),
    ShownPage("offer", "/transfers/2"),
    ShownPage("try-api", "/try#list_tickets"),
    ShownPage("activity", "/activity"),
    ShownPage("account", "/account"),
    ShownPage("account-delete", "/account/delete"),
    ShownPage("sessions", "/sessions"),
    ShownPage("passkeys", "/passkeys"),
    ShownPage("device", "/device"),
    ShownPage("organizations", "/organizations"),
    ShownPage("members", "/o/3/members"),
    ShownPage("organization-delete", "/o/3/delete", has_picture=False),
    ShownPage("names-of-organization", "/o/3/names"),
    ShownPage("not-found", f"/names/nothing.{DOMAIN}"),
)
"""Every page that a link leads to. The stories in tests/web/ show the pages after forms."""


def settings_of_pages(folder: Path) -> dict[str, Any]:
    """Return the settings of a service that shows every page. Writes a file into the folder."""
    (folder / "update-key").write_text("0123456789abcdef" * 2)
    return {"update_key_file": str(folder / "update-key"), "update_address": "203.0.113.53:53"}


def fill(service: RunningService) -> str:
    """Add the data that the pages show, and return the secret of Ada's session."""
    service.add_domain(
        DOMAIN, "--description", "Names for people and projects of the valley.", "--records", "on"
    )
    service.operator(
        *("domain", "offer", DOMAIN, "--mode", "premium", "--price", "50"),
        *("--renewal-price", "25", "--period-days", "365"),
    )
    ada = service.add_user(ADA, credit_count=120)
    nameservers = ["ns1.provider.example", "ns2.provider.example"]
    for label in ("old", "music", "garden", "blog"):
        service.register(ada, f"{label}.{DOMAIN}", nameservers=nameservers if label != "music" else [])
    service.register(ada, f"studio.{DOMAIN}", registration_mode="plus", confirm=True, nameservers=nameservers)
    service.register(ada, f"site.{DOMAIN}", records=RECORDS)
    service.call(ada, "DELETE", f"/subdomains/old.{DOMAIN}")
    key = {"name": "certbot at home", "record_names": ["_acme-challenge", "_acme-challenge.*"]}
    service.call(ada, "POST", f"/subdomains/site.{DOMAIN}/update-keys", key)
    fill_account(service, ada)
    return signed_in(service, ADA).secret


def fill_account(service: RunningService, ada: Registrant) -> None:
    """Add tickets, transfers, an organization, another browser and a package."""
    ben = service.add_user("ben@example.org")
    service.operator("package", "add", "Small", "--credits", "100", "--price", "9.90", "--currency", "EUR")
    ticket = {"subject": "My music page is not reachable", "message": "Since this morning.\nWhat can I do?"}
    service.call(ada, "POST", "/support/tickets", ticket | {"fqdn": f"music.{DOMAIN}"})
    service.operator("ticket", "reply", "T-000001", "--message", "It has no nameservers. Add at least one.")
    service.call(ada, "POST", f"/subdomains/garden.{DOMAIN}/transfer", {"to": "ben@example.org"})
    given = service.register(ben, f"gift.{DOMAIN}")["subdomain"]["fqdn"]
    service.call(ben, "POST", f"/subdomains/{given}/transfer", {"to": ADA})
    organization = service.call(ada, "POST", "/organizations", {"name": "Valley Museum"}).json()[
        "organization"
    ]
    invited = {"email": "carl@example.org", "role": "viewer"}
    service.call(ada, "POST", f"/organizations/{organization['id']}/invitations", invited)
    choir = service.call(ben, "POST", "/organizations", {"name": "Hill Choir"}).json()["organization"]
    invited = {"email": ADA, "role": "member"}
    service.call(ben, "POST", f"/organizations/{choir['id']}/invitations", invited)
    signed_in(service, ADA)
