"""Quotes: what a call would cost, and its confirmation. Nothing is paid without `confirm`."""

import secrets
from collections.abc import Awaitable, Callable
from dataclasses import dataclass, field
from typing import Generic, TypeVar

import msgspec

from sublet_client.exceptions import ApiError
from sublet_client.models import Availability, QuoteDetails

T = TypeVar("T")


class PriceError(ApiError):
    """A paid operation was refused, and nothing was paid. `quote` has its price."""

    @property
    def quote(self) -> QuoteDetails:
        """The price now, and what is left of the balance after it."""
        return msgspec.convert(self.raw_quote or {}, QuoteDetails)


@dataclass(frozen=True, slots=True)
class Quote(Generic[T]):
    """What an operation costs. `confirm` does it.

    `price` is in credits, 0 if it costs nothing; `details` has the rest of the quote, None if it costs
    nothing. `result` is what was done already, because it cost nothing; else None.
    """

    price: int
    details: QuoteDetails | None
    result: T | None
    _confirm: Callable[[int], T] = field(repr=False)

    def confirm(self, *, max_credits: int | None = None) -> T:
        """Do it, and pay at most `max_credits`, by default the price of the quote. Twice is done once.

        Raises:
            PriceChanged: it costs more now; ask for a new quote.
            InsufficientCredits: the balance is too low.
            ApiError: as the operation.
        """
        if self.result is not None:
            return self.result
        return self._confirm(self.price if max_credits is None else max_credits)


@dataclass(frozen=True, slots=True)
class AsyncQuote(Generic[T]):
    """What an operation costs. `confirm` does it. As `Quote`."""

    price: int
    details: QuoteDetails | None
    result: T | None
    _confirm: Callable[[int], Awaitable[T]] = field(repr=False)

    async def confirm(self, *, max_credits: int | None = None) -> T:
        """Do it, and pay at most `max_credits`, by default the price of the quote.

        Twice is done once; raises as `Quote.confirm`.
        """
        if self.result is not None:
            return self.result
        return await self._confirm(self.price if max_credits is None else max_credits)


def confirmation_of(act: Callable[..., T]) -> Callable[[int], T]:
    """Return the function that does an operation for at most a number of credits.

    Its calls have one key, so twice is done once.
    """
    key = secrets.token_hex(16)
    return lambda most: act(confirm=True, max_credits=most, idempotency_key=key)


def is_free(found: Availability, registration_mode: str | None) -> bool:
    """True if the registration of a name may cost nothing, in this mode or in any: then asking for the price
    would register it.
    """
    modes = [each for each in found.modes or () if registration_mode in (None, each.mode)]
    return any(each.price_credits == 0 for each in modes)
