"""`sublet credits …`: the users' credits."""

from typing import Annotated, Any

import typer

from sublet.accounts.find import find_user
from sublet.accounts.model import User as FoundUser
from sublet.cli.commands import new_app
from sublet.cli.output import Answer, Table
from sublet.cli.session import Session, change, question
from sublet.cli.user import ReasonForUser, User
from sublet.counted import counted
from sublet.credits import store
from sublet.credits.model import Movement, Payment
from sublet.credits.movements import adjust_credits, grant_credits, refund_charge
from sublet.db import Tx

app = new_app("Grant, correct and refund credits.")


def answer(movement: Movement) -> Answer:
    """Return what a movement of credits answers."""
    payment = movement.payment
    line = f"{movement.email}: {_signed(payment.credits)}, the balance is {payment.balance_after}."
    return Answer({**describe(payment), "email": movement.email}, (line,))


def _signed(credit_count: int) -> str:
    return f"{'+' if credit_count > 0 else '-'}{counted(abs(credit_count), 'credit')}"


def describe(payment: Payment) -> dict[str, Any]:
    """Return a movement as --json prints it."""
    return {name: getattr(payment, name) for name in Payment.__slots__}


@change(app, "grant")
def grant(
    session: Session,
    user: User,
    credit_count: Annotated[int, typer.Argument(metavar="CREDITS", help="How many to give.")],
    reason: Annotated[str, typer.Option("--reason", metavar="TEXT", help="Why; the user reads it too.")],
) -> Answer:
    """Give credits to a user."""
    return answer(session.write(grant_credits, user, credit_count, reason))


@change(app, "adjust")
def adjust(
    session: Session,
    user: User,
    credit_count: Annotated[
        int, typer.Argument(metavar="CREDITS", help="How many to add; below 0, to take (-5).")
    ],
    reason: ReasonForUser = None,
) -> Answer:
    """Correct a user's balance, up or down."""
    return answer(session.write(adjust_credits, user, credit_count, reason))


@change(app, "refund")
def refund(
    session: Session,
    transfer_id: Annotated[
        int, typer.Argument(metavar="ID", help="The charge; see `sublet credits history`.")
    ],
    credit_count: Annotated[
        int | None, typer.Option("--credits", metavar="N", help="A part of it; else all of it.")
    ] = None,
    reason: ReasonForUser = None,
) -> Answer:
    """Give back what was charged, or a part of it; once."""
    return answer(session.write(refund_charge, transfer_id, credit_count, reason))


@question(app, "history")
def history(
    session: Session,
    user: User,
    limit: Annotated[int, typer.Option("--limit", metavar="N", min=1, max=10_000, help="Most rows.")] = 100,
) -> Answer:
    """Show what moved a user's balance, newest first."""

    def ask(tx: Tx) -> tuple[FoundUser, int, list[Payment]]:
        found = find_user(tx, user)
        return found, store.find_balance(tx, found.id), store.list_payments(tx, found.id, limit, None)

    found, balance, payments = session.read(ask)
    rows = tuple(
        (
            each.id,
            each.created_at,
            each.kind,
            each.credits,
            each.balance_after,
            each.description,
            each.reference,
        )
        for each in payments
    )
    columns = ("id", "at", "kind", "credits", "balance", "description", "reference")
    value = {"email": found.email, "balance": balance, "payments": [describe(each) for each in payments]}
    lines = (f"{found.email}: {counted(balance, 'credit')}",)
    return Answer(value, lines, Table(columns, rows, "Nothing moved it yet."))
