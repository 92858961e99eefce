"""Checks of what the operator enters for credits, money and payments (rules; no SQL)."""

import re
from decimal import Decimal

from sublet.dns.names import shown
from sublet.errors import FieldError

CREDITS_MAX = 10**12
"""The most credits of one movement: far below the range of stored integers, and exact in every JSON reader."""
_AMOUNT = re.compile(r"[0-9]{1,12}(\.[0-9]{1,4})?")
_CURRENCY = re.compile(r"[A-Z]{3}")
_REFERENCE = re.compile(r"[!-~]{1,100}")


def check_credits(field: str, credit_count: int, *, least: int = 1) -> list[FieldError]:
    """Return the error in a number of credits to move or sell, if any."""
    if least <= credit_count <= CREDITS_MAX:
        return []
    return [FieldError(field, "value_invalid", f"Give a whole number of credits, {least} to {CREDITS_MAX}.")]


def check_amount(field: str, text: str) -> tuple[str, list[FieldError]]:
    """Return an amount of money as a decimal string with at least two places, and the error in it."""
    plain = text.strip()
    if not _AMOUNT.fullmatch(plain):
        message = f"`{shown(text)}` is not an amount. Give one such as 9.90."
        return plain, [FieldError(field, "value_invalid", message)]
    amount = Decimal(plain)
    places = max(2, -int(amount.as_tuple().exponent))
    return f"{amount:.{places}f}", []


def check_currency(text: str) -> tuple[str, list[FieldError]]:
    """Return a currency as ISO 4217 writes it (three capitals), and the error in it. Not checked: that ISO 4217 lists it."""
    currency = text.strip().upper()
    if not _CURRENCY.fullmatch(currency):
        message = f"`{shown(text)}` is not a currency. Give three letters, such as EUR."
        return currency, [FieldError("currency", "value_invalid", message)]
    return currency, []


def check_reference(text: str) -> tuple[str, list[FieldError]]:
    """Return the reference of a payment (1 to 100 printable ASCII characters without spaces), and the error in it."""
    reference = text.strip()
    if not reference:
        return reference, [FieldError("reference", "required", "Give the reference of the payment.")]
    if not _REFERENCE.fullmatch(reference):
        message = "Give a reference of 1 to 100 ASCII letters, digits and signs, without spaces."
        return reference, [FieldError("reference", "value_invalid", message)]
    return reference, []
