"""`Client`: the API as methods that wait for their answers."""

import os
import time
from collections.abc import Callable, Sequence
from functools import partial
from types import TracebackType
from typing import Literal, Self, TypeVar

import httpx2

from sublet_client import _sync
from sublet_client._errors import PaymentConfirmationRequired
from sublet_client._quotes import Quote, confirmation_of, is_free
from sublet_client._secret import Secret
from sublet_client._settings import DEADLINE_SECONDS, TIMEOUT_SECONDS, config_of, from_environment
from sublet_client._transport import SyncTransport, http_of
from sublet_client._waiting import UNSETTLED, pauses
from sublet_client.exceptions import NotInTime
from sublet_client.models import Dnskey, Ds, DsRecord, Glue, GlueEntry, RegisterAnswer, RenewAnswer, Subdomain

T = TypeVar("T")


class Client:
    """The API of a registry, for one token.

    `base_url` is that of the service, such as `https://names.example.net/api/v1`; an address without a path
    gets `/api/v1`. Every change has an `Idempotency-Key`, so it is sent again after a lost answer and done
    once. `deadline_seconds` bounds a call with all its attempts, `timeout_seconds` one attempt. A wait for a
    rate limit moves the deadline. `http` is an HTTP client of yours, for a proxy or other certificates. Use
    it in a `with` block, or call `close`.

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
        http: httpx2.Client | None = None,
    ) -> None:
        config = config_of(base_url, token, deadline_seconds, timeout_seconds)
        self._transport = SyncTransport(config, http_of(httpx2.Client) if http is None else http)
        self.account = _sync.AccountMethods(self._transport)
        self.credits = _sync.CreditsMethods(self._transport)
        self.platform_domains = _sync.PlatformDomainsMethods(self._transport)
        self.subdomains = Subdomains(self._transport)
        self.tokens = _sync.TokensMethods(self._transport)
        self.records = _sync.RecordsMethods(self._transport)
        self.update_keys = _sync.UpdateKeysMethods(self._transport)
        self.transfers = _sync.TransfersMethods(self._transport)
        self.organizations = _sync.OrganizationsMethods(self._transport)
        self.tickets = _sync.TicketsMethods(self._transport)
        self.sign_up = _sync.SignUpMethods(self._transport)
        self.devices = _sync.DevicesMethods(self._transport)

    def __repr__(self) -> str:
        return f"{type(self).__name__}({self._transport.base_url!r})"

    @classmethod
    def from_environment(cls) -> Self:
        """Return a client for the service in `SUBLET_URL` and the token in `SUBLET_TOKEN`.

        Raises:
            ValueError: a variable is missing, or can't be an address or a token.
        """
        return cls(*from_environment(os.environ))

    def close(self) -> None:
        """Close the connections."""
        self._transport.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()


class Subdomains(_sync.SubdomainsMethods):
    """Names: registration, delegation, renewal, trash; quotes, and waiting for the DNS."""

    def quote(
        self,
        fqdn: str,
        *,
        nameservers: Sequence[str] | None = None,
        glue: Sequence[Glue | GlueEntry] | None = None,
        ds_records: Sequence[str | Ds | DsRecord | Dnskey] | None = None,
        registration_mode: Literal["free", "plus", "premium", "special"] | None = None,
        coupon_code: str | None = None,
    ) -> Quote[RegisterAnswer]:
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
        if is_free(self.availability(fqdn=fqdn), registration_mode):
            return Quote(0, None, None, confirmation_of(register))
        return _quoted(register)

    def quote_renewal(self, fqdn: str, *, coupon_code: str | None = None) -> Quote[RenewAnswer]:
        """Return what a renewal costs; `confirm` of the quote renews.

        What costs nothing is done at once, and is in `result`.

        Raises:
            ApiError: as `renew`.
        """
        return _quoted(partial(self.renew, fqdn, coupon_code=coupon_code))

    def quote_restore(self, fqdn: str, *, coupon_code: str | None = None) -> Quote[RegisterAnswer]:
        """Return what a restore from the trash costs; `confirm` of the quote restores.

        What costs nothing is done at once, and is in `result`.

        Raises:
            ApiError: as `restore`.
        """
        return _quoted(partial(self.restore, fqdn, coupon_code=coupon_code))

    def wait(self, fqdn: str, *, deadline_seconds: float = DEADLINE_SECONDS) -> Subdomain:
        """Wait until the DNS has the latest change of a name, and return the name.

        Its `status` may also be `failed`: look at it.

        Raises:
            NotInTime: it is still being published.
            ApiError: as `get`.
        """
        until = time.monotonic() + deadline_seconds
        for pause in pauses():
            found = self.get(fqdn)
            if found.status not in UNSETTLED:
                return found
            if time.monotonic() + pause >= until:
                break
            time.sleep(pause)
        raise NotInTime(
            f"{fqdn} is still being published after {deadline_seconds:g} s. Wait longer, or see its "
            "delegation."
        )


def _quoted(act: Callable[..., T]) -> Quote[T]:
    """Ask for the price by acting without a confirmation."""
    confirm = confirmation_of(act)
    try:
        return Quote(0, None, act(), confirm)
    except PaymentConfirmationRequired as refusal:
        return Quote(refusal.quote.price, refusal.quote, None, confirm)
