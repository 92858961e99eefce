"""The API of credits and payments (spec, part 4, "Account and credits")."""

from typing import Annotated

from sublet.credits import store
from sublet.credits.ledger import KINDS
from sublet.db import Tx
from sublet.ids import Position
from sublet.operations import tags
from sublet.operations.call import Answer, Call
from sublet.operations.operation import API, Operations
from sublet.operations.paging import Paging
from sublet.operations.shapes import (
    NOW,
    PAGE,
    Credits,
    Currency,
    HostName,
    Id,
    Moment,
    PageQuery,
    PageShape,
    Price,
    Shape,
    Success,
    one_of,
)

api = Operations(API, tags.ACCOUNT)


class PackageShape(Shape):
    """A package of credits that can be purchased."""

    id: Id
    name: str
    credits: Credits
    price: Price
    currency: Currency


class CreditsAnswer(Success, kw_only=True):
    """The balance, and the packages on offer."""

    credit_balance: Credits
    packages: list[PackageShape]


class PaymentShape(Shape):
    """A change of the balance. `credits` is negative if the balance decreased."""

    id: Id
    kind: Annotated[str, one_of(KINDS)]
    credits: int
    balance_after: Credits
    amount: Price | None
    currency: Currency | None
    description: str
    reference: str
    subdomain: HostName | None
    created_at: Moment


class PaymentsAnswer(Success, kw_only=True):
    """The changes of the balance, newest first."""

    payments: list[PaymentShape]
    page: PageShape


@api.get(
    "/credits",
    "account:read",
    example={
        "credit_balance": 100,
        "packages": [{"id": 1, "name": "Starter", "credits": 100, "price": "9.00", "currency": "EUR"}],
    },
)
def credits_(tx: Tx, call: Call[None, None]) -> CreditsAnswer:
    """Get the balance and the packages.

    Returns the user's balance in credits, and the packages of credits on sale.
    """
    packages = [PackageShape.of(each) for each in store.list_packages(tx)]
    balance = store.find_balance(tx, call.registrant.holder.id)
    return CreditsAnswer(credit_balance=balance, packages=packages)


@api.get(
    "/payments",
    "account:read",
    example={
        "payments": [
            {
                "id": 5,
                "kind": "charge",
                "credits": -5,
                "balance_after": 95,
                "amount": None,
                "currency": None,
                "description": "Registration of shop.example.net (plus, 365 days)",
                "reference": "register:18:20261121T093000.000000Z",
                "subdomain": "shop.example.net",
                "created_at": NOW,
            }
        ],
        "page": PAGE,
    },
)
def payments(tx: Tx, call: Call[None, PageQuery]) -> Answer[PaymentsAnswer]:
    """List the payments.

    Returns purchases, charges, refunds, grants and adjustments of credits, newest first.
    """
    paging = Paging[PaymentShape](call, "payments")
    found = store.list_own_entries(tx, call.actor(), paging.limit, paging.after)
    items, page, headers = paging.take(
        (Position(each.created_at, each.id), PaymentShape.of(each)) for each in found
    )
    return Answer(PaymentsAnswer(payments=items, page=page), headers)
