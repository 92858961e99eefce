"""`tickets`: support."""

import sys
from collections.abc import Iterator

import click

from sublet_client.cli.session import Ctl, command, group
from sublet_client.models import Message, Ticket, TicketDetail

STATUSES = ("open", "answered", "closed")
COLUMNS = ("ticket_number", "status", "subject", "subdomain", "last_message_at")


@group()
def tickets() -> None:
    """Ask for support."""


@command(tickets, "list", uses=("list_tickets",), columns=COLUMNS)
@click.option("--status", type=click.Choice(STATUSES), help="Only tickets with this status.")
@click.option("--archived", is_flag=True, default=None, help="Only archived tickets.")
def list_(ctl: Ctl, status: str | None, archived: bool | None) -> Iterator[Ticket]:
    """List tickets."""
    with ctl.client() as client:
        yield from client.tickets.list(status=status, archived=archived)


@command(tickets, "show", uses=("get_ticket",), columns=("created_at", "author_name", "message"))
@click.argument("number")
def show_ticket(ctl: Ctl, number: str) -> tuple[Message, ...]:
    """Show the messages of a ticket."""
    with ctl.client() as client:
        found = client.tickets.get(number)
    click.echo(f"{found.ticket_number}: {found.subject} ({found.status})", err=True)
    return found.messages


@command(tickets, "open", uses=("open_ticket",), columns=COLUMNS)
@click.argument("subject")
@click.argument("message")
@click.option("--type", "kind", type=click.Choice(["contact", "abuse", "support"]), help="What it is about.")
@click.option("--name", "fqdn", metavar="NAME", help="The name that it is about.")
def open_(ctl: Ctl, subject: str, message: str, kind: str | None, fqdn: str | None) -> TicketDetail:
    """Open a ticket. With - as MESSAGE it is read from standard input."""
    with ctl.client() as client:
        return client.tickets.open(subject, _text(message), type=kind, fqdn=fqdn)  # type: ignore[arg-type] # one of the choices


@command(tickets, "reply", uses=("reply",), columns=COLUMNS)
@click.argument("number")
@click.argument("message")
def reply(ctl: Ctl, number: str, message: str) -> TicketDetail:
    """Reply to a ticket. With - as MESSAGE it is read from standard input."""
    with ctl.client() as client:
        return client.tickets.reply(number, _text(message))


def _text(message: str) -> str:
    return sys.stdin.read() if message == "-" else message
