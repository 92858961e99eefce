"""`domains`, `credits`, `activity`, `account`: what isn't about one name."""

from collections.abc import Iterator
from datetime import datetime
from pathlib import Path

import click
import msgspec

from sublet_client.cli.session import Ctl, command, group, with_yes
from sublet_client.models import (
    Activity,
    CreditsAnswer,
    DeletedUser,
    Package,
    Payment,
    PlatformDomain,
    Usage,
)


class _ListByDefault(click.Group):
    """A group whose command without a word is `list`."""

    def parse_args(self, ctx: click.Context, args: list[str]) -> list[str]:
        """Add the word, unless help is wanted."""
        is_list = not args or (args[0].startswith("-") and args[0] not in ctx.help_option_names)
        return super().parse_args(ctx, ["list", *args] if is_list else args)


@group(cls=_ListByDefault)
def domains() -> None:
    """List the platform domains with their prices."""


@command(
    domains,
    "list",
    uses=("platform_domains",),
    columns=("domain", "public_name", "registration_open", "nameservers_min", "nameservers_max", "modes"),
)
def list_domains(ctl: Ctl) -> Iterator[PlatformDomain]:
    """List the platform domains with their modes, and what a name costs in each.

    `subletctl domains` is the same.
    """
    with ctl.client() as client:
        yield from client.platform_domains.list()


@group("credits")
def credits_() -> None:
    """Balance, history and packages of credits."""


@command(credits_, "balance", uses=("credits",), columns=("credit_balance",))
def balance(ctl: Ctl) -> CreditsAnswer:
    """Show the balance."""
    with ctl.client() as client:
        return client.credits.get()


@command(credits_, "packages", uses=("credits",), columns=("id", "name", "credits", "price", "currency"))
def packages(ctl: Ctl) -> tuple[Package, ...]:
    """List the packages of credits. The operator of the registry sells them."""
    with ctl.client() as client:
        return client.credits.get().packages


@command(
    credits_,
    "history",
    uses=("payments",),
    columns=("created_at", "kind", "credits", "balance_after", "description"),
)
def history(ctl: Ctl) -> Iterator[Payment]:
    """List purchases, charges and refunds."""
    with ctl.client() as client:
        yield from client.credits.payments()


@command(
    None,
    "activity",
    uses=("activity",),
    columns=("at", "action", "subdomain", "by", "token_name", "address"),
)
@click.option("--action", metavar="ACTION", help="Only this action, such as subdomain.renew.")
@click.option("--since", type=click.DateTime(), help="Only what happened since then.")
@click.option("--until", type=click.DateTime(), help="Only what happened before.")
def activity(
    ctl: Ctl, action: str | None, since: datetime | None, until: datetime | None
) -> Iterator[Activity]:
    """Show what happened in the account, the newest first."""
    with ctl.client() as client:
        yield from client.account.activity(
            action=action,
            since=since.astimezone() if since else None,
            until=until.astimezone() if until else None,
        )


@group()
def account() -> None:
    """Quota, reminders, export and deletion of the account."""


@command(account, "quota", uses=("free_subdomains",), columns=("used", "limit", "remaining"))
def quota(ctl: Ctl) -> Usage:
    """Show how many free names you have and may have."""
    with ctl.client() as client:
        return client.account.free_subdomains()


@command(account, "reminders", uses=("set_reminders",))
@click.argument("state", type=click.Choice(["on", "off"]))
def reminders(ctl: Ctl, state: str) -> str:
    """Turn mails on dates of your names on or off."""
    with ctl.client() as client:
        client.account.set_reminders(state == "on")
    return f"Reminders are {state}."


@command(account, "export", uses=("export",))
@click.argument("file", type=click.Path(dir_okay=False, path_type=Path), required=False)
def export_account(ctl: Ctl, file: Path | None) -> None:
    """Write all data of the account as JSON to FILE, or to standard output."""
    with ctl.client() as client:
        text = msgspec.json.format(msgspec.json.encode(client.account.export()))
    if file is None:
        click.echo(text)
    else:
        file.write_bytes(text + b"\n")


@command(account, "delete", uses=("delete_me",), columns=("id",))
@click.option(
    "--confirm", metavar="EMAIL", help="Your own address: without it the answer says what would be lost."
)
@with_yes
def delete(ctl: Ctl, confirm: str | None, yes: bool) -> DeletedUser:
    """Delete the account: its names go to the trash, its credits are lost, its texts are erased for good."""
    with ctl.client() as client:
        if confirm is not None:
            ctl.ask("Delete the account for good?", "the same command with --yes", yes=yes)
        return client.account.delete(confirm=confirm)
