"""Check the operator's input of credits, money and payment references (rules)."""

import re
from decimal import Decimal

from sublet.dns.names import shown
from sublet.errors import FieldError

CREDITS_MAX = 10**12
"""The maximum number of credits in one ledger entry. It is far below the maximum of a stored integer, and
every JSON parser reads it exactly.
"""
_AMOUNT = re.compile(r"[0-9]{1,12}(\.[0-9]{1,4})?")
_CURRENCY = re.compile(r"[A-Z]{3}")
_REFERENCE = re.compile(r"[!-~]{1,100}")


def check_credits(field: str, credit_count: int, *, least: int = 1) -> list[FieldError]:
    """Return the errors in a number of credits to move or sell."""
    if least <= credit_count <= CREDITS_MAX:
        return []
    return [FieldError(field, "value_invalid", f"Give a whole number of credits, {least} to {CREDITS_MAX}.")]


def check_amount(field: str, text: str) -> tuple[str, list[FieldError]]:
    """Return an amount of money as a decimal string with at least two places, and its errors."""
    plain = text.strip()
    if not _AMOUNT.fullmatch(plain):
        message = f"`{shown(text)}` is not an amount. Give an amount such as 9.90."
        return plain, [FieldError(field, "value_invalid", message)]
    amount = Decimal(plain)
    places = max(2, -int(amount.as_tuple().exponent))
    return f"{amount:.{places}f}", []


def check_currency(text: str) -> tuple[str, list[FieldError]]:
    """Return a currency code in capitals, and its errors. Not checked: that ISO 4217 lists the code."""
    currency = text.strip().upper()
    if not _CURRENCY.fullmatch(currency):
        message = f"`{shown(text)}` is not a currency. Give three letters, such as EUR."
        return currency, [FieldError("currency", "value_invalid", message)]
    return currency, []


def check_reference(text: str) -> tuple[str, list[FieldError]]:
    """Return the reference of a payment (1 to 100 printable ASCII characters without
    spaces), and its errors.
    """
    reference = text.strip()
    if not reference:
        return reference, [FieldError("reference", "required", "Give the reference of the payment.")]
    if not _REFERENCE.fullmatch(reference):
        message = "The reference is invalid. Use 1 to 100 printable ASCII characters without spaces."
        return reference, [FieldError("reference", "value_invalid", message)]
    return reference, []
