"""`sublet label …`: labels in a class of their own."""

from typing import Annotated, Any

import typer

from sublet.accounts.store import list_organizations
from sublet.cli.domain import Domain
from sublet.cli.output import Answer, Table
from sublet.cli.session import Session, change, question
from sublet.db import Tx
from sublet.platform_domains import store
from sublet.platform_domains.find import find_platform_domain
from sublet.platform_domains.model import LABEL_CLASSES, Label
from sublet.platform_domains.set_label import describe, set_label
from sublet.platform_domains.unset_label import unset_label

app = typer.Typer(help="Labels in a class of their own: premium, special, reserved …", no_args_is_help=True)

LabelName = Annotated[str, typer.Argument(metavar="LABEL")]


@change(app, "set")
def set_(
    session: Session,
    domain: Domain,
    label: LabelName,
    label_class: Annotated[
        str, typer.Option("--class", metavar="CLASS", help=f"One of {', '.join(LABEL_CLASSES)}.")
    ],
    price: Annotated[
        int | None, typer.Option("--price", metavar="CREDITS", help="Instead of the offer's.")
    ] = None,
    renewal_price: Annotated[
        int | None, typer.Option("--renewal-price", metavar="CREDITS", help="Instead of the offer's.")
    ] = None,
    grant: Annotated[
        list[str] | None,
        typer.Option("--grant", metavar="ORGANIZATION", help="Repeated: who may take a special label."),
    ] = None,
) -> Answer:
    """List a label in a class, in the place of what was listed."""
    listed = session.write(
        set_label,
        domain,
        label,
        label_class,
        price_credits=price,
        renewal_price_credits=renewal_price,
        organizations=grant or (),
    )
    return Answer(describe(listed), (f"The label {listed.label} is {listed.label_class}.",))


@change(app, "unset")
def unset(session: Session, domain: Domain, label: LabelName) -> Answer:
    """Take a label from the list: it is again what the rules make of it."""
    listed = session.write(unset_label, domain, label)
    return Answer(describe(listed), (f"The label {listed.label} is no longer listed.",))


@question(app, "list")
def list_labels(session: Session, domain: Domain) -> Answer:
    """List the labels of a platform domain that are in a class of their own."""

    def ask(tx: Tx) -> tuple[list[Label], dict[int, str]]:
        names = {each.id: each.name for each in list_organizations(tx).values()}
        return store.list_labels(tx, find_platform_domain(tx, domain).id), names

    labels, names = session.read(ask)
    rows: tuple[tuple[Any, ...], ...] = tuple(
        (
            each.label,
            each.label_class,
            each.price_credits,
            each.renewal_price_credits,
            [names[organization_id] for organization_id in each.organization_ids],
        )
        for each in labels
    )
    columns = ("label", "class", "price", "renewal price", "granted to")
    return Answer([describe(each) for each in labels], table=Table(columns, rows, "No label is listed."))
