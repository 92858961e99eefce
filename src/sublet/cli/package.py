"""`sublet package …`: packages of credits."""

from typing import Annotated

import typer

from sublet.cli.commands import new_app
from sublet.cli.output import Answer, Table
from sublet.cli.session import Session, change, question
from sublet.counted import counted
from sublet.credits import store
from sublet.credits.packages import add_package, retire_package

app = new_app("Add, list and retire packages of credits that can be purchased.")


@change(app, "add")
def add(
    session: Session,
    name: Annotated[str, typer.Argument(metavar="NAME", help="What the package is called.")],
    credit_count: Annotated[int, typer.Option("--credits", metavar="N", help="How many credits it holds.")],
    price: Annotated[str, typer.Option("--price", metavar="AMOUNT", help="Such as 9.90.")],
    currency: Annotated[str, typer.Option("--currency", metavar="CODE", help="Such as EUR (ISO 4217).")],
) -> Answer:
    """Offer a package of credits."""
    package = session.write(add_package, name, credit_count, price, currency)
    line = f"Added the package {package.name} (id {package.id}): {counted(package.credits, 'credit')} for {package.price} {package.currency}."
    return Answer(package, (line,))


@question(app, "list")
def list_packages(
    session: Session, retired: Annotated[bool, typer.Option("--retired", help="Retired ones too.")] = False
) -> Answer:
    """List the packages that are offered."""
    packages = session.read(store.list_packages, retired=retired)
    rows = tuple(
        (each.id, each.name, each.credits, each.price, each.currency, each.retired_at) for each in packages
    )
    columns = ("id", "name", "credits", "price", "currency", "retired")
    return Answer(packages, table=Table(columns, rows, "There are no packages."))


@change(app, "retire")
def retire(
    session: Session,
    package_id: Annotated[int, typer.Argument(metavar="ID", help="See `sublet package list`.")],
) -> Answer:
    """Offer a package no longer."""
    package = session.write(retire_package, package_id)
    return Answer(package, (f"The package {package.name} is retired.",))
