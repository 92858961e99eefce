"""`sublet zone record …`: the operator's own records in zones on the built-in name server."""

from typing import Annotated

from typer import Option

from sublet.cli.options import Domain
from sublet.cli.output import Answer, Column, as_object, table_of
from sublet.cli.session import Session, audited_command, command, new_app
from sublet.subdomains.zone_records import (
    TTL_SECONDS_DEFAULT,
    list_zone_record_sets,
    remove_zone_record,
    set_zone_record,
)

app = new_app("The operator's own records in zones on the built-in name server.")

Owner = Annotated[
    str,
    Option("--owner", metavar="NAME", help="Relative to the zone, or a full name; `@` for the zone itself."),
]
Type = Annotated[str, Option("--type", metavar="TYPE", help="The record type, such as CAA.")]


@audited_command(app, "set")
def set_(
    session: Session,
    domain: Domain,
    owner: Owner,
    type_name: Type,
    value: Annotated[list[str], Option(metavar="TEXT", help="A value. May be given several times.")],
    ttl: Annotated[int, Option(metavar="SECONDS", help="The TTL: 60 to 86400.")] = TTL_SECONDS_DEFAULT,
) -> Answer:
    """Set the records of an owner and type, in place of the ones that it has."""
    rrset = session.write(set_zone_record, domain, owner, type_name, value, ttl_seconds=ttl)
    return Answer(
        as_object(rrset),
        tuple(f"{rrset.name} {rrset.ttl_seconds} {rrset.type} {each}" for each in rrset.values),
    )


@audited_command(app, "remove")
def remove(session: Session, domain: Domain, owner: Owner, type_name: Type) -> Answer:
    """Remove the records of an owner and type, also adopted ones."""
    rrset = session.write(remove_zone_record, domain, owner, type_name)
    return Answer(as_object(rrset), (f"The {rrset.type} records of {rrset.name} are removed.",))


@command(app, "list")
def list_records(session: Session, domain: Domain) -> Answer:
    """List the records of a zone that no registration published: the ones that were set, and adopted ones."""
    found = session.read(list_zone_record_sets, domain)
    columns: list[Column] = [("owner", "name"), "type", ("ttl", "ttl_seconds"), "values"]
    return Answer(
        [as_object(each) for each in found], table=table_of(found, columns, "The zone has no such records.")
    )
