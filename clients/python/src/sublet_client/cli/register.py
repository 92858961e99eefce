"""`register`, `renew`, `auto-renew`, `trash`, `restore`: the life of a name."""

from collections.abc import Sequence
from datetime import UTC, datetime
from typing import Any

import click
from msgspec.structs import asdict

from sublet_client import Client
from sublet_client._errors import InsufficientScope
from sublet_client._quotes import Quote
from sublet_client.cli.delegation import parse_glue, quoted
from sublet_client.cli.names import waited
from sublet_client.cli.plan import MODES
from sublet_client.cli.session import Ctl, Stop, command, with_consent, with_yes
from sublet_client.cli.several import Item, do_all, find_all, find_in_trash, refuse_coupon, with_names
from sublet_client.models import AutoRenew, Deleted, QuoteDetails, RegisterAnswer, Subdomain

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
    """Return why a registration costs credits in the mode that the registry chose;
    empty if it costs nothing.
    """
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


@command(None, "renew", uses=("renew", "get_subdomain", "get_auto_renew"), columns=DONE)
@with_names
@with_consent
def renew(
    ctl: Ctl, names: Sequence[str], yes: bool, max_credits: int | None, coupon: str | None
) -> dict[str, Any] | list[dict[str, Any]]:
    """Renew names by their next term. Of several names it first shows the price of all, and asks once."""
    with ctl.client() as client:
        if len(names) == 1:
            quote = client.subdomains.quote_renewal(names[0], coupon_code=coupon)
            done = ctl.pay(quote, f"The renewal of {names[0]}", yes=yes, max_credits=max_credits)
            return _with_price(done.subdomain, done.renewal.charged_credits)
        refuse_coupon(coupon)

        def find(name: str) -> Item[Subdomain]:
            found = client.subdomains.get(name)
            if not found.renewal_available:
                sentence = f"{found.fqdn} can't be renewed now."
                raise Stop(sentence, f"subletctl names timeline {found.fqdn}")
            price = client.subdomains.get_auto_renew(name).renewal_price_credits
            return Item(found.fqdn, f"renew {found.fqdn}", found, price)

        def act(item: Item[Subdomain]) -> dict[str, Any]:
            done = client.subdomains.renew(item.fqdn, confirm=True, max_credits=item.price)
            return _with_price(done.subdomain, done.renewal.charged_credits)

        items = find_all(ctl, names, find)
        return do_all(ctl, client, items, act, question="Renew them?", yes=yes, max_credits=max_credits)


@command(None, "restore", uses=("restore", "list_subdomains"), columns=DONE)
@with_names
@with_consent
def restore(
    ctl: Ctl, names: Sequence[str], yes: bool, max_credits: int | None, coupon: str | None
) -> dict[str, Any] | list[dict[str, Any]]:
    """Get names back from the trash. Of several names it first shows the price of all, and asks once."""
    with ctl.client() as client:
        if len(names) == 1:
            quote = client.subdomains.quote_restore(names[0], coupon_code=coupon)
            done = ctl.pay(quote, f"The restoration of {names[0]}", yes=yes, max_credits=max_credits)
            return _with_price(done.subdomain, done.charged_credits)
        refuse_coupon(coupon)
        in_trash = find_in_trash(client)

        def find(name: str) -> Item[Quote[RegisterAnswer] | None]:
            if name not in in_trash:
                raise Stop(f"{name} is not in your trash.", "subletctl names list --status trashed")
            found = in_trash[name]
            is_in_term = found.expires_at > datetime.now(UTC)  # then it is free, and asking would restore it
            quote = None if is_in_term else client.subdomains.quote_restore(found.fqdn)
            return Item(found.fqdn, f"restore {found.fqdn}", quote, quote.price if quote else 0)

        def act(item: Item[Quote[RegisterAnswer] | None]) -> dict[str, Any]:
            done = item.about.confirm() if item.about else client.subdomains.restore(item.fqdn)
            return _with_price(done.subdomain, done.charged_credits)

        items = find_all(ctl, names, find)
        return do_all(ctl, client, items, act, question="Restore them?", yes=yes, max_credits=max_credits)


@command(None, "trash", uses=("delete", "get_subdomain"), columns=("fqdn", "id"))
@with_names
@with_yes
def trash(ctl: Ctl, names: Sequence[str], yes: bool) -> Deleted | list[Deleted]:
    """Move names to the trash, and take them from the DNS.

    Of several names it first shows all, and asks once.
    """
    question = "Take {} from the DNS, and move {} to the trash?"
    with ctl.client() as client:
        if len(names) == 1:
            ctl.ask(question.format(names[0], "it"), "the same command with --yes", yes=yes)
            return client.subdomains.delete(names[0])

        def find(name: str) -> Item[Subdomain]:
            found = client.subdomains.get(name)
            return Item(found.fqdn, f"trash {found.fqdn} ({found.status})", found)

        items = find_all(ctl, names, find)
        return do_all(
            ctl,
            client,
            items,
            lambda item: client.subdomains.delete(item.fqdn),
            question=question.format("them", "them"),
            yes=yes,
        )


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
