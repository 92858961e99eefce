"""`sublet audit …`: the events of the audit."""

from datetime import UTC, datetime
from typing import Annotated

from typer import Option

from sublet import audit
from sublet.accounts.find import find_user
from sublet.audit import AuditEvent, EventFilter
from sublet.cli.options import INSTANT_FORMATS, Limit, id_argument
from sublet.cli.output import Answer, Column, as_json, as_object, key_value_lines, table_of
from sublet.cli.session import Session, command, new_app
from sublet.db import Tx
from sublet.dns.names import shown
from sublet.errors import NotFound
from sublet.ids import parse_id, parse_ticket_number
from sublet.platform_domains.store import find_platform_domain_by_name
from sublet.subdomains.naming import canonical_domain
from sublet.subdomains.store import list_ids_of_name

app = new_app("List and show the events of the audit: who changed what, when and why.")


@command(app, "list")
def list_events(
    session: Session,
    actor: Annotated[
        str | None,
        Option(metavar="ACTOR", help="Only by this actor: user, operator, system, or an operator's name."),
    ] = None,
    user: Annotated[
        str | None, Option(metavar="USER", help="Only by this user: e-mail address or id.")
    ] = None,
    about: Annotated[
        str | None,
        Option(
            "--object",
            metavar="OBJECT",
            help="Only about this object: a full name, an e-mail address, a ticket's number, a platform "
            "domain, or TYPE:ID such as coupon:3.",
        ),
    ] = None,
    event: Annotated[
        str | None, Option(metavar="EVENT", help="Only this event, such as subdomain.transfer.")
    ] = None,
    since: Annotated[
        datetime | None, Option(formats=INSTANT_FORMATS, help="The start, inclusive, in UTC.")
    ] = None,
    until: Annotated[
        datetime | None, Option(formats=INSTANT_FORMATS, help="The end, exclusive, in UTC.")
    ] = None,
    limit: Limit = 100,
) -> Answer:
    """List events, newest first."""

    def query(tx: Tx) -> list[AuditEvent]:
        wanted = EventFilter(
            actor=actor,
            user_id=find_user(tx, user).id if user is not None else None,
            objects=_find_objects(tx, about) if about is not None else None,
            action=event,
            since=since.replace(tzinfo=UTC) if since else None,
            until=until.replace(tzinfo=UTC) if until else None,
        )
        return audit.search_events(tx, wanted, limit)

    found = session.read(query)
    columns: list[Column] = ["id", "at", ("by", _actor), ("event", "action"), ("object", _object), "reason"]
    return Answer(found, table=table_of(found, columns, "There are no such events."))


@command(app, "show")
def show(session: Session, event_id: Annotated[int, id_argument("See `sublet audit list`.")]) -> Answer:
    """Show an event with the values before and after."""
    found = session.read(audit.find_event, event_id)
    if found is None:
        raise NotFound(f"There is no event {event_id}. See `sublet audit list`.")
    values = {name: as_json(each) for name in ("before", "after") if (each := getattr(found, name))}
    return Answer(found, key_value_lines(**as_object(found) | values))


def _actor(event: AuditEvent) -> str:
    who = event.actor_name if event.user_id is None else event.user_id
    return event.actor_kind if who is None else f"{event.actor_kind} {who}"


def _object(event: AuditEvent) -> str:
    return f"{event.object_type}:{event.object_id}"


def _find_objects(tx: Tx, text: str) -> list[tuple[str, int]]:
    """Return the types and ids of the objects that the operator's text means.

    A name has a row for each of its registrations.
    """
    object_type, _, number = text.partition(":")
    object_id, ticket_id, name = parse_id(number), parse_ticket_number(text), canonical_domain(text)
    if object_id is not None:
        return [(object_type, object_id)]
    if ticket_id is not None:
        return [("ticket", ticket_id)]
    if "@" in text:
        return [("user", find_user(tx, text).id)]
    found: list[tuple[str, int]] = []
    if name is not None:
        found = [("subdomain", each) for each in list_ids_of_name(tx, name)]
        platform_domain = find_platform_domain_by_name(tx, name)
        found += [("platform_domain", platform_domain.id)] if platform_domain is not None else []
    if not found:
        raise NotFound(
            f"There is no `{shown(text)}` here. Give a full name, an e-mail address, a ticket's number, a "
            "platform domain, or TYPE:ID such as coupon:3."
        )
    return found
