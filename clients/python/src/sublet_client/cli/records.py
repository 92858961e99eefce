"""`records`: the records of a name without nameservers."""

from collections.abc import Callable, Sequence
from tempfile import NamedTemporaryFile
from typing import TextIO

import click

from sublet_client import Client, ValidationFailed
from sublet_client.cli.delegation import with_wait
from sublet_client.cli.names import waited
from sublet_client.cli.session import Ctl, Function, Stop, command, group
from sublet_client.exceptions import SubletError
from sublet_client.models import RecordSet, RecordSetEntry, ZoneFileStoredAnswer
from sublet_client.record_sets import change_record_set
from sublet_client.spelling import parse_record_owner, parse_record_type, parse_record_value

COLUMNS = ("name", "type", "ttl", "values")
TTL = click.IntRange(60, 86_400)
Change = Callable[[str, tuple[str, ...]], Sequence[str]]


def with_place(function: Function) -> Function:
    """Add the arguments of a command for one RRset."""
    for each in ("rdtype", "owner", "name"):
        function = click.argument(each, metavar="TYPE" if each == "rdtype" else each.upper())(function)
    return function


@group()
def records() -> None:
    """Show and change the records of a name without nameservers."""


@command(records, "list", uses=("get_records", "get_subdomain"), columns=COLUMNS)
@click.argument("name")
@click.option("--name", "owner", metavar="OWNER", help="Only records at this owner, such as www or @.")
@click.option("--type", "rdtype", metavar="TYPE", help="Only records of this type.")
def list_records(ctl: Ctl, name: str, owner: str | None, rdtype: str | None) -> tuple[RecordSet, ...]:
    """List the records of a name."""
    with ctl.client() as client:
        if owner is not None:
            _, owner = _place(client, name, owner)
        kind = None if rdtype is None else parse_record_type(rdtype)
        return client.records.get(name, name=owner, type=kind).records


@command(records, "set", uses=("set_record", "get_subdomain"), columns=COLUMNS)
@with_place
@click.argument("values", nargs=-1, required=True)
@click.option("--ttl", type=TTL, metavar="SECONDS", help="The TTL, by default 300.")
@with_wait
def set_(
    ctl: Ctl, name: str, owner: str, rdtype: str, values: tuple[str, ...], ttl: int | None, waits: bool
) -> tuple[RecordSet, ...]:
    """Make VALUES the values of a type at an owner: @ (the name itself), www, *.

    Each value is one argument, such as '10 mail.example.org'.

    The former values are removed. Print all records of the name.
    """
    with ctl.client() as client:
        done = client.records.set(name, owner, rdtype, values, ttl=ttl)
        _wait(ctl, client, name, waits=waits)
        return done.records


@command(records, "add", uses=("get_records", "change_records", "get_subdomain"), columns=COLUMNS)
@with_place
@click.argument("value")
@click.option("--ttl", type=TTL, metavar="SECONDS", help="The TTL of all values; else it stays, or is 300.")
@with_wait
def add(
    ctl: Ctl, name: str, owner: str, rdtype: str, value: str, ttl: int | None, waits: bool
) -> tuple[RecordSet, ...]:
    """Add a value to those of a type at an owner. Print all records of the name."""

    def with_value(fqdn: str, values: tuple[str, ...]) -> Sequence[str]:
        return list(dict.fromkeys([*values, parse_record_value(value, rdtype, fqdn) or value]))

    return _change(ctl, name, owner, rdtype, with_value, ttl=ttl, waits=waits)


@command(
    records,
    "remove",
    uses=("get_records", "change_records", "remove_record", "get_subdomain"),
    columns=COLUMNS,
)
@with_place
@click.argument("value", required=False)
@with_wait
def remove(
    ctl: Ctl, name: str, owner: str, rdtype: str, value: str | None, waits: bool
) -> tuple[RecordSet, ...]:
    """Remove a value of a type at an owner, or all of them. Print the records that are left."""
    if value is None:
        with ctl.client() as client:
            done = client.records.remove(name, owner, rdtype)
            _wait(ctl, client, name, waits=waits)
            return done.records

    def without(fqdn: str, values: tuple[str, ...]) -> Sequence[str]:
        wanted = parse_record_value(value, rdtype, fqdn) or value
        if wanted not in values:
            raise Stop(f"{name} has no such record at {owner}.", f"subletctl records list {name}")
        return [each for each in values if each != wanted]

    return _change(ctl, name, owner, rdtype, without, waits=waits)


@command(records, "export", uses=("get_zone_file",))
@click.argument("name")
def export(ctl: Ctl, name: str) -> None:
    """Write the records of a name to standard output, as a zone file."""
    with ctl.client() as client:
        click.echo(client.records.get_zone_file(name), nl=False)


@command(records, "import", uses=("replace_zone_file", "get_subdomain"), columns=COLUMNS)
@click.argument("name")
@click.argument("file", type=click.File(encoding="utf-8"), default="-")
@with_wait
def import_(ctl: Ctl, name: str, file: TextIO, waits: bool) -> tuple[RecordSet, ...]:
    """Replace all records of a name by those of a zone file, by default standard input.

    Print the records, and to standard error the lines that were ignored or changed.
    """
    with ctl.client() as client:
        done = client.records.replace_zone_file(name, file.read())
        return _stored(ctl, client, name, done, waits=waits)


@command(records, "edit", uses=("get_zone_file", "replace_zone_file", "get_subdomain"), columns=COLUMNS)
@click.argument("name")
@with_wait
def edit(ctl: Ctl, name: str, waits: bool) -> tuple[RecordSet, ...]:
    """Edit the records of a name in $EDITOR, as a zone file. Print the records.

    A refused file is opened again. Records that were changed in between are not overwritten.
    """
    with ctl.client() as client:
        fqdn = client.subdomains.get(name).fqdn
        seen = client.records.get_zone_file_tagged(fqdn)
        text: str | None = seen.value
        refused = None
        while True:
            text = click.edit(text, extension=".zone")
            if text is None or text == seen.value:
                raise refused or Stop("You changed nothing.", f"subletctl records list {fqdn}")
            try:
                done = client.records.replace_zone_file(fqdn, text, if_match=seen.etag)
            except ValidationFailed as error:
                refused = error
                click.echo(error, err=True)
                ctl.ask("Edit it again?", f"subletctl records edit {fqdn}", yes=False)
                continue
            except SubletError:
                click.echo(f"What you wrote is in {_kept(text, fqdn)}.", err=True)
                raise
            return _stored(ctl, client, fqdn, done, waits=waits)


def _kept(text: str, fqdn: str) -> str:
    """Return the path of a new file with a text, which stays."""
    with NamedTemporaryFile("w", encoding="utf-8", prefix=f"{fqdn}.", suffix=".zone", delete=False) as file:
        file.write(text)
    return file.name


def _stored(
    ctl: Ctl, client: Client, name: str, done: ZoneFileStoredAnswer, *, waits: bool
) -> tuple[RecordSet, ...]:
    """Write to standard error which lines of a zone file were ignored or changed, and return the records."""
    for note in done.notes:
        click.echo(note, err=True)
    _wait(ctl, client, name, waits=waits)
    return done.records


def _change(
    ctl: Ctl, name: str, owner: str, rdtype: str, change: Change, *, ttl: int | None = None, waits: bool
) -> tuple[RecordSet, ...]:
    """Change the values of one RRset, and print the records of the name."""
    kind = parse_record_type(rdtype)
    with ctl.client() as client:
        fqdn, owner = _place(client, name, owner)

        def changed(before: RecordSet | None) -> RecordSetEntry | None:
            present, present_ttl = ((), None) if before is None else (before.values, before.ttl)
            wanted = tuple(change(fqdn, present)), present_ttl if ttl is None else ttl
            if wanted == (present, present_ttl):
                return None
            return RecordSetEntry(name=owner, type=kind, values=wanted[0], ttl=wanted[1])

        left = change_record_set(client, fqdn, owner, kind, changed)
        _wait(ctl, client, fqdn, waits=waits)
        return left


def _place(client: Client, name: str, owner: str) -> tuple[str, str]:
    """Return the name in the API's spelling, and the owner relative to it."""
    found = client.subdomains.get(name)
    return found.fqdn, parse_record_owner(owner, found.fqdn, found.domain)


def _wait(ctl: Ctl, client: Client, name: str, *, waits: bool) -> None:
    if waits:
        waited(ctl, client, client.subdomains.get(name), waits=True)
