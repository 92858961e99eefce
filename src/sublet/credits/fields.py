"""What the operator may write of credits, money, packages and coupons (rules; no SQL)."""

import re
from decimal import Decimal, InvalidOperation

from sublet.dns.names import shown
from sublet.errors import FieldError

CREDITS_MAX = 10**12
"""The most credits of one movement: far from the range of stored integers, and exact in every JSON reader."""
_AMOUNT = re.compile(r"[0-9]{1,12}(\.[0-9]{1,4})?")
_CURRENCY = re.compile(r"[A-Z]{3}")
_REFERENCE = re.compile(r"[!-~]{1,100}")


def check_credits(field: str, credit_count: int, *, least: int = 1) -> list[FieldError]:
    """Return why a number of credits can't be moved or sold."""
    if not least <= credit_count <= CREDITS_MAX:
        return [
            FieldError(field, "value_invalid", f"Give a whole number of credits, {least} to {CREDITS_MAX}.")
        ]
    return []


def check_amount(field: str, text: str) -> tuple[str, list[FieldError]]:
    """Return an amount of money as a decimal string with two places or more, with what is wrong with it."""
    plain = text.strip()
    try:
        amount = Decimal(plain) if _AMOUNT.fullmatch(plain) else None
    except InvalidOperation:
        amount = None
    if amount is None:
        message = f"`{shown(text)}` is no amount. Give one such as 9.90."
        return plain, [FieldError(field, "value_invalid", message)]
    places = max(2, -int(amount.as_tuple().exponent))
    return f"{amount:.{places}f}", []


def check_currency(text: str) -> tuple[str, list[FieldError]]:
    """Return a currency as ISO 4217 writes it: three capitals. Not checked: that it is one of the list."""
    currency = text.strip().upper()
    if not _CURRENCY.fullmatch(currency):
        message = f"`{shown(text)}` is no currency. Give three letters, such as EUR."
        return currency, [FieldError("currency", "value_invalid", message)]
    return currency, []


def check_reference(text: str) -> tuple[str, list[FieldError]]:
    """Return the reference of a payment outside: up to 100 printable ASCII characters without spaces."""
    reference = text.strip()
    if not reference:
        return reference, [FieldError("reference", "required", "Give the reference of the payment.")]
    if not _REFERENCE.fullmatch(reference):
        message = "Give a reference of 1 to 100 letters, digits and signs of ASCII, without spaces."
        return reference, [FieldError("reference", "value_invalid", message)]
    return reference, []
