"""Add and retire packages of credits (`sublet package …`)."""

from sublet import audit
from sublet.accounts.fields import check_text
from sublet.audit import Actor
from sublet.credits import store
from sublet.credits.ledger import check_amount, check_credits, check_currency
from sublet.credits.model import Package
from sublet.db import Tx
from sublet.errors import Conflict, NotFound, validation_failed


def add_package(tx: Tx, actor: Actor, name: str, credit_count: int, price: str, currency: str) -> Package:
    """Add a package of credits for sale.

    `price` is a decimal string in `currency`. To change a package, retire it and add a new one.

    Raises:
        ValidationFailed: all invalid fields: name, credits, price, currency.
    """
    name, errors = check_text("name", name)
    price, price_errors = check_amount("price", price)
    currency, currency_errors = check_currency(currency)
    errors = [*errors, *check_credits("credits", credit_count), *price_errors, *currency_errors]
    if errors:
        raise validation_failed(errors)
    package = store.insert_package(tx, name, credit_count, price, currency)
    after = {"name": name, "credits": credit_count, "price": price, "currency": currency}
    audit.record(tx, actor, "package.add", package.id, after=after)
    return package


def retire_package(tx: Tx, actor: Actor, package_id: int) -> Package:
    """Stop offering a package. A payment for it can still be recorded.

    Raises, in this order:
        NotFound: there is no such package.
        Conflict: the package is retired already.
    """
    package = store.find_package(tx, package_id)
    if package is None:
        raise NotFound(f"There is no package {package_id}. See `sublet package list`.")
    retired = store.retire_package(tx, package_id)
    if retired is None:
        raise Conflict(f"The package {package.name} is retired already. No action needed.")
    audit.record(tx, actor, "package.retire", package_id, after={"retired_at": tx.now.isoformat()})
    return retired
