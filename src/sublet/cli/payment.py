"""`sublet payment …`: payments that were made outside."""

from typing import Annotated

import typer

from sublet.cli.commands import new_app
from sublet.cli.credits import answer
from sublet.cli.output import Answer
from sublet.cli.session import Session, change
from sublet.cli.user import User
from sublet.credits.movements import PaymentMade, record_payment

app = new_app("Record payments that were made outside.")


@app.callback()
def payment() -> None:
    """Record payments that were made outside; users get the credits that they paid for."""


@change(app, "record")
def record(
    session: Session,
    user: User,
    reference: Annotated[
        str, typer.Option("--reference", metavar="REF", help="Of the payment outside; it counts once.")
    ],
    package: Annotated[
        int | None, typer.Option("--package", metavar="ID", help="The package that was bought; or else:")
    ] = None,
    credit_count: Annotated[
        int | None, typer.Option("--credits", metavar="N", help="How many credits were bought.")
    ] = None,
    amount: Annotated[str | None, typer.Option("--amount", metavar="AMOUNT", help="Such as 9.90.")] = None,
    currency: Annotated[str | None, typer.Option("--currency", metavar="CODE", help="Such as EUR.")] = None,
) -> Answer:
    """Record a payment: of a package, or of --credits for --amount and --currency."""
    made = PaymentMade(reference, package, credit_count, amount, currency)
    return answer(session.write(record_payment, user, made))
