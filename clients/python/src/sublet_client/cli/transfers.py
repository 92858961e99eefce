"""`transfer`: names offered to other people, and taken."""

from collections.abc import Iterator

import click

from sublet_client.cli.session import Ctl, command, group, with_yes
from sublet_client.models import Transfer

STATES = ("pending", "accepted", "declined", "withdrawn", "expired")
DIRECTIONS = ("sent", "received")
COLUMNS = ("id", "direction", "subdomain", "sender", "to", "state", "expires_at")


@group()
def transfer() -> None:
    """Give names to other people, and take them."""


@command(transfer, "list", uses=("list_transfers",), columns=COLUMNS)
@click.option("--state", type=click.Choice(STATES), help="Only transfers in this state.")
@click.option(
    "--direction", type=click.Choice(DIRECTIONS), help="Only those that you sent, or that you can take."
)
def list_(ctl: Ctl, state: str | None, direction: str | None) -> Iterator[Transfer]:
    """List transfers."""
    with ctl.client() as client:
        yield from client.transfers.list(state=state, direction=direction)


@command(transfer, "show", uses=("get_transfer",), columns=COLUMNS)
@click.argument("id")
def show_transfer(ctl: Ctl, id: str) -> Transfer:
    """Show a transfer."""
    with ctl.client() as client:
        return client.transfers.get(id)


@command(transfer, "send", uses=("push",), columns=COLUMNS)
@click.argument("name")
@click.argument("email")
@with_yes
def send(ctl: Ctl, name: str, email: str, yes: bool) -> Transfer:
    """Offer a name to the person with this address."""
    with ctl.client() as client:
        ctl.ask(f"Give {name} to {email}?", "the same command with --yes", yes=yes)
        return client.transfers.push(name, email)


@command(transfer, "accept", uses=("accept",), columns=COLUMNS)
@click.argument("id")
def accept(ctl: Ctl, id: str) -> Transfer:
    """Take a name that is offered to you."""
    with ctl.client() as client:
        return client.transfers.accept(id)


@command(transfer, "decline", uses=("decline",), columns=COLUMNS)
@click.argument("id")
def decline(ctl: Ctl, id: str) -> Transfer:
    """Decline a name that is offered to you."""
    with ctl.client() as client:
        return client.transfers.decline(id)


@command(transfer, "withdraw", uses=("withdraw",), columns=COLUMNS)
@click.argument("id")
def withdraw(ctl: Ctl, id: str) -> Transfer:
    """Withdraw an offer."""
    with ctl.client() as client:
        return client.transfers.withdraw(id)
