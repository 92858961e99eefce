"""`AsyncClient`: the API as coroutines. As `Client`, with `await`."""

import asyncio
import os
import time
from collections.abc import Awaitable, Callable, Sequence
from functools import partial
from types import TracebackType
from typing import Literal, Self, TypeVar

import httpx2

from sublet_client import _async
from sublet_client._errors import PaymentConfirmationRequired
from sublet_client._quotes import AsyncQuote, confirmation_of, is_free
from sublet_client._secret import Secret
from sublet_client._settings import DEADLINE_SECONDS, TIMEOUT_SECONDS, config_of, from_environment
from sublet_client._transport import AsyncTransport, http_of
from sublet_client._waiting import UNSETTLED, pauses
from sublet_client.exceptions import NotInTime
from sublet_client.models import Dnskey, Ds, DsRecord, Glue, GlueEntry, RegisterAnswer, RenewAnswer, Subdomain

T = TypeVar("T")


class AsyncClient:
    """The API of a registry, for one token.

    `base_url` is that of the service, such as `https://names.example.net/api/v1`; an address without a path
    gets `/api/v1`. Every change has an `Idempotency-Key`, so it is sent again after a lost answer and done
    once. `deadline_seconds` bounds a call with all its attempts, `timeout_seconds` one attempt. A wait for a
    rate limit moves the deadline. `http` is an HTTP client of yours, for a proxy or other certificates. Use
    it in an `async with` block, or call `close`.

    Raises:
        ValueError: `base_url` or `token` can't be one, or the proxy or the certificates of the environment
            can't be used. The message doesn't contain the token.
    """

    def __init__(
        self,
        base_url: str,
        token: str | Secret | None = None,
        *,
        deadline_seconds: float = DEADLINE_SECONDS,
        timeout_seconds: float = TIMEOUT_SECONDS,
        http: httpx2.AsyncClient | None = None,
    ) -> None:
        config = config_of(base_url, token, deadline_seconds, timeout_seconds)
        self._transport = AsyncTransport(config, http_of(httpx2.AsyncClient) if http is None else http)
        self.account = _async.AsyncAccountMethods(self._transport)
        self.credits = _async.AsyncCreditsMethods(self._transport)
        self.platform_domains = _async.AsyncPlatformDomainsMethods(self._transport)
        self.subdomains = AsyncSubdomains(self._transport)
        self.tokens = _async.AsyncTokensMethods(self._transport)
        self.records = _async.AsyncRecordsMethods(self._transport)
        self.update_keys = _async.AsyncUpdateKeysMethods(self._transport)
        self.transfers = _async.AsyncTransfersMethods(self._transport)
        self.organizations = _async.AsyncOrganizationsMethods(self._transport)
        self.tickets = _async.AsyncTicketsMethods(self._transport)
        self.sign_up = _async.AsyncSignUpMethods(self._transport)
        self.devices = _async.AsyncDevicesMethods(self._transport)

    def __repr__(self) -> str:
        return f"{type(self).__name__}({self._transport.base_url!r})"

    @classmethod
    def from_environment(cls) -> Self:
        """Return a client for the service in `SUBLET_URL` and the token in `SUBLET_TOKEN`.

        Raises:
            ValueError: a variable is missing, or can't be an address or a token.
        """
        return cls(*from_environment(os.environ))

    async def close(self) -> None:
        """Close the connections."""
        await self._transport.close()

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        await self.close()


class AsyncSubdomains(_async.AsyncSubdomainsMethods):
    """Names: registration, delegation, renewal, trash; quotes, and waiting for the DNS."""

    async def quote(
        self,
        fqdn: str,
        *,
        nameservers: Sequence[str] | None = None,
        glue: Sequence[Glue | GlueEntry] | None = None,
        ds_records: Sequence[str | Ds | DsRecord | Dnskey] | None = None,
        registration_mode: Literal["free", "plus", "premium", "special"] | None = None,
        coupon_code: str | None = None,
    ) -> AsyncQuote[RegisterAnswer]:
        """Return what a registration costs; `confirm` of the quote registers.

        A name that costs nothing is not registered before that either, except if a coupon makes it free: then
        `result` has the answer.

        Raises:
            ApiError: as `register`.
        """
        register = partial(
            self.register,
            fqdn=fqdn,
            nameservers=nameservers,
            glue=glue,
            ds_records=ds_records,
            registration_mode=registration_mode,
            coupon_code=coupon_code,
        )
        if is_free(await self.availability(fqdn=fqdn), registration_mode):
            return AsyncQuote(0, None, None, confirmation_of(register))
        return await _quoted(register)

    async def quote_renewal(self, fqdn: str, *, coupon_code: str | None = None) -> AsyncQuote[RenewAnswer]:
        """Return what a renewal costs; `confirm` of the quote renews.

        What costs nothing is done at once, and is in `result`.

        Raises:
            ApiError: as `renew`.
        """
        return await _quoted(partial(self.renew, fqdn, coupon_code=coupon_code))

    async def quote_restore(self, fqdn: str, *, coupon_code: str | None = None) -> AsyncQuote[RegisterAnswer]:
        """Return what a restore from the trash costs; `confirm` of the quote restores.

        What costs nothing is done at once, and is in `result`.

        Raises:
            ApiError: as `restore`.
        """
        return await _quoted(partial(self.restore, fqdn, coupon_code=coupon_code))

    async def wait(self, fqdn: str, *, deadline_seconds: float = DEADLINE_SECONDS) -> Subdomain:
        """Wait until the DNS has the latest change of a name, and return the name.

        Its `status` may also be `failed`: look at it.

        Raises:
            NotInTime: it is still being published.
            ApiError: as `get`.
        """
        until = time.monotonic() + deadline_seconds
        for pause in pauses():
            found = await self.get(fqdn)
            if found.status not in UNSETTLED:
                return found
            if time.monotonic() + pause >= until:
                break
            await asyncio.sleep(pause)
        raise NotInTime(
            f"{fqdn} is still being published after {deadline_seconds:g} s. Wait longer, or see its "
            "delegation."
        )


async def _quoted(act: Callable[..., Awaitable[T]]) -> AsyncQuote[T]:
    """Ask for the price by acting without a confirmation."""
    confirm = confirmation_of(act)
    try:
        return AsyncQuote(0, None, await act(), confirm)
    except PaymentConfirmationRequired as refusal:
        return AsyncQuote(refusal.quote.price, refusal.quote, None, confirm)
