"""`register`, `renew`, `auto-renew`, `trash`, `restore`: the life of a name."""

from typing import Any

import click
from msgspec.structs import asdict

from sublet_client import Client
from sublet_client._errors import InsufficientScope
from sublet_client.cli.delegation import parse_glue, quoted
from sublet_client.cli.names import waited
from sublet_client.cli.plan import MODES
from sublet_client.cli.session import Ctl, command, with_consent, with_yes
from sublet_client.models import AutoRenew, Deleted, QuoteDetails, Subdomain

DONE = ("fqdn", "status", "expires_at", "charged_credits")


def _with_price(subdomain: Subdomain, charged_credits: int) -> dict[str, Any]:
    return {**asdict(subdomain), "charged_credits": charged_credits}


@command(
    None, "register", uses=("register", "availability", "free_subdomains", "get_subdomain"), columns=DONE
)
@click.argument("name")
@click.option(
    "--nameserver", "-n", "nameservers", multiple=True, metavar="HOST", help="A nameserver; repeat it."
)
@click.option(
    "--glue", multiple=True, metavar="HOST=ADDRESS", help="An address of a nameserver below the name."
)
@click.option(
    "--ds", "ds_records", multiple=True, callback=quoted, metavar="DS", help="A DS record, as in a zone file."
)
@click.option("--mode", type=click.Choice(MODES), help="The registration mode.")
@click.option("--wait", "waits", is_flag=True, help="Wait until the name is in the DNS.")
@with_consent
def register(ctl: Ctl, name: str, **given: Any) -> dict[str, Any]:
    """Register a name. Without --mode it is free while your quota lasts, then `plus`, which costs credits."""
    with ctl.client() as client:
        quote = client.subdomains.quote(
            name,
            nameservers=given["nameservers"] or None,
            glue=parse_glue(given["glue"]) or None,
            ds_records=given["ds_records"] or None,
            registration_mode=given["mode"],
            coupon_code=given["coupon"],
        )
        why = _why_paid(client, quote.details) if given["mode"] is None else ""
        done = ctl.pay(quote, name, why=why, yes=given["yes"], max_credits=given["max_credits"])
        found = waited(ctl, client, done.subdomain, waits=given["waits"] and bool(given["nameservers"]))
        return _with_price(found, done.charged_credits)


def _why_paid(client: Client, price: QuoteDetails | None) -> str:
    """Return why a registration costs credits in the mode that the registry chose; empty if it costs nothing."""
    if price is None:
        return ""
    why = f" in the mode {price.registration_mode}"
    if price.registration_mode == "plus":
        try:
            quota = client.account.free_subdomains()
        except InsufficientScope:
            return why
        if quota.remaining == 0:
            why += (
                f", because your {quota.limit} free names are used"
                if quota.limit
                else ", because you have no free names"
            )
    return why


@command(None, "renew", uses=("renew",), columns=DONE)
@click.argument("name")
@with_consent
def renew(ctl: Ctl, name: str, yes: bool, max_credits: int | None, coupon: str | None) -> dict[str, Any]:
    """Renew a name by its next term."""
    with ctl.client() as client:
        quote = client.subdomains.quote_renewal(name, coupon_code=coupon)
        done = ctl.pay(quote, f"The renewal of {name}", yes=yes, max_credits=max_credits)
        return _with_price(done.subdomain, done.renewal.charged_credits)


@command(None, "restore", uses=("restore",), columns=DONE)
@click.argument("name")
@with_consent
def restore(ctl: Ctl, name: str, yes: bool, max_credits: int | None, coupon: str | None) -> dict[str, Any]:
    """Get a name back from the trash."""
    with ctl.client() as client:
        quote = client.subdomains.quote_restore(name, coupon_code=coupon)
        done = ctl.pay(quote, f"The way back of {name}", yes=yes, max_credits=max_credits)
        return _with_price(done.subdomain, done.charged_credits)


@command(None, "trash", uses=("delete",), columns=("fqdn", "id"))
@click.argument("name")
@with_yes
def trash(ctl: Ctl, name: str, yes: bool) -> Deleted:
    """Move a name to the trash, and take it from the DNS."""
    with ctl.client() as client:
        ctl.ask(
            f"Take {name} from the DNS, and move it to the trash?", "the same command with --yes", yes=yes
        )
        return client.subdomains.delete(name)


@command(
    None,
    "auto-renew",
    uses=("get_auto_renew", "set_auto_renew"),
    columns=("enabled", "max_credits", "renewal_price_credits", "next_attempt_at"),
)
@click.argument("name")
@click.argument("state", type=click.Choice(["on", "off"]), required=False)
@click.option(
    "--max-credits", type=click.IntRange(min=0), metavar="N", help="Most that each renewal may cost."
)
def auto_renew(ctl: Ctl, name: str, state: str | None, max_credits: int | None) -> AutoRenew:
    """Show automatic renewal of a name, or turn it on or off. It pays up to --max-credits at each renewal."""
    with ctl.client() as client:
        if state is None:
            return client.subdomains.get_auto_renew(name)
        return client.subdomains.set_auto_renew(name, state == "on", max_credits=max_credits).auto_renew
