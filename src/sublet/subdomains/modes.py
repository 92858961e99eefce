"""The modes of a registration (spec, part 2; docs/spec-choices.md, "Modes and prices"), the free quota (spec,
part 8), which limits the names in the mode `free`, and the stricter limits of new users.

`availability` counts the names of a user who registers, and `choose_mode` refuses the registration. Restores
and transfers are refused by `refuse_over_quota`.
"""

from collections.abc import Mapping
from datetime import datetime, timedelta

from msgspec import Struct

from sublet.accounts.model import User
from sublet.config import Settings, split_list
from sublet.db import Tx
from sublet.dns.names import shown
from sublet.errors import FieldError, FreeQuotaExceeded, Refusal, RegistrationModeNotAllowed
from sublet.platform_domains.labels import MODES_BY_CLASS
from sublet.platform_domains.model import ADMIN, MODES, Offer
from sublet.platform_domains.offers import PERIOD_DAYS
from sublet.subdomains import store
from sublet.subdomains.lifecycle import quota_allows


class Quota(Struct, frozen=True):
    """A user's free quota. `used` is the number of free names outside the trash, `limit` the maximum."""

    used: int
    limit: int

    @property
    def allows_one_more(self) -> bool:
        """True if the user may hold one more free name."""
        return self.remaining > 0

    @property
    def remaining(self) -> int:
        """The number of free names that the user may add; 0 if `used` exceeds a lowered limit."""
        return max(0, self.limit - self.used)

    def allows(self, mode: str) -> bool:
        """True if the user may hold one more name of this mode."""
        return quota_allows(mode, quota_left=self.allows_one_more)

    def refusal(
        self, instead: str = "register this one for credits", whose: str = "your quota"
    ) -> FreeQuotaExceeded:
        """Return the refusal of one more free name, with `limit` and `used` in `details`."""
        return FreeQuotaExceeded(
            f"All {self.limit} free names of {whose} are in use. Delete one first, or {instead}.",
            details={"limit": self.limit, "used": self.used},
        )


def find_quota(tx: Tx, user: User, default: int) -> Quota:
    """Return the free quota of a user or organization. `default` applies to users without their own quota."""
    return Quota(store.count_free(tx, user.id), quota_limit(user.free_quota, default))


def refuse_over_quota(
    tx: Tx, user: User, mode: str, default: int, instead: str = "ask the operator for more"
) -> None:
    """Raise `FreeQuotaExceeded` if the quota doesn't allow one more name of this mode.

    `default` applies to users without their own quota. The message proposes `instead`.
    """
    quota = find_quota(tx, user, default)
    if not quota.allows(mode):
        raise quota.refusal(instead, user.name if user.is_organization else "your quota")


def quota_limit(own: int | None, default: int) -> int:
    """Return the maximum number of free names of a user: the user's own quota, or `default`."""
    return default if own is None else own


def default_quota(settings: Settings, user: User, now: datetime) -> int:
    """Return the quota of users without their own: `new_user_free_quota` for `new_user_days` after sign-up,
    then `free_quota`.
    """
    is_new = _new_until(settings, user, now) is not None
    return min(settings.new_user_free_quota, settings.free_quota) if is_new else settings.free_quota


def withheld_modes(settings: Settings, user: User, now: datetime) -> dict[str, datetime]:
    """Return the modes that a new user can't use yet (`new_user_withheld_modes`), with the instant at which
    each becomes usable.
    """
    until = _new_until(settings, user, now)
    return {} if until is None else dict.fromkeys(split_list(settings.new_user_withheld_modes), until)


def _new_until(settings: Settings, user: User, now: datetime) -> datetime | None:
    """Return when a user stops being new. None if the user isn't new."""
    if user.signed_up_at is None:
        return None
    until = user.signed_up_at + timedelta(days=settings.new_user_days)
    return until if now < until else None


NOTHING_WITHHELD: Mapping[str, datetime] = {}


def mode_errors(requested: str | None) -> list[FieldError]:
    """Return the errors in a requested mode: `registration_mode_invalid` if the mode is unknown."""
    # `admin` is a known mode, and `choose_mode` refuses it with another code.
    if requested in (None, ADMIN, *MODES):
        return []
    sentence = f"Choose one of {', '.join(MODES)}."
    return [FieldError("registration_mode", "registration_mode_invalid", sentence)]


def _mode_advice(label_class: str) -> str:
    modes = " or ".join(MODES_BY_CLASS[label_class])
    return f"Choose {modes}." if modes else "Only the operator registers it. Choose another label."


def choose_mode(
    requested: str | None,
    label_class: str,
    offers: Mapping[str, Offer],
    *,
    quota: Quota,
    withheld: Mapping[str, datetime] = NOTHING_WITHHELD,
) -> Offer | Refusal:
    """Return the offer for a registration, or the refusal, which the verb raises later.

    Without a requested mode: free while the quota lasts, then plus; for premium and special labels, the mode
    with the name of the class. `offers` are the current offers by mode. `withheld` are the modes that the
    user can't use yet, with the instant at which each becomes usable.

    Refusals, in this order:
        RegistrationModeNotAllowed: the mode is admin, doesn't fit the label's class, is not offered, or is
            withheld.
        FreeQuotaExceeded: the mode is free, and the quota is used up.
    """
    fitting = MODES_BY_CLASS[label_class]
    if requested is None:
        offered = [mode for mode in fitting if mode in offers]
        candidates = [offers[mode] for mode in offered if mode not in withheld]
        affordable = [offer for offer in candidates if quota.allows(offer.mode)]
        if affordable:
            return affordable[0]
        if candidates:
            return quota.refusal()
        if offered:
            return _withheld_refusal(offered[0], withheld[offered[0]])
        return RegistrationModeNotAllowed(
            "This platform domain does not offer this label now. Choose another label."
        )
    if requested == ADMIN:
        return RegistrationModeNotAllowed("Only the operator registers names as admin. Choose another one.")
    if requested not in fitting:
        return RegistrationModeNotAllowed(
            f"This label can't be registered as {requested}. {_mode_advice(label_class)}"
        )
    if requested not in offers:
        return RegistrationModeNotAllowed(
            f"This platform domain does not offer {requested}. Choose one that it offers."
        )
    if requested in withheld:
        return _withheld_refusal(requested, withheld[requested])
    if not quota.allows(requested):
        return quota.refusal()
    return offers[requested]


def _withheld_refusal(mode: str, until: datetime) -> RegistrationModeNotAllowed:
    return RegistrationModeNotAllowed(
        f"A new account may not register names as {mode} before {until:%Y-%m-%d %H:%M} UTC. Wait until "
        "then, or choose another one.",
        details={"available_at": until},
    )


def operator_offer(
    platform_domain_id: int, mode: str, offers: Mapping[str, Offer], days: int | None
) -> Offer | Refusal:
    """Return an offer with prices of 0 for a registration by the operator, or the refusal.

    The label's class isn't checked.

    `mode` is admin or a mode that the platform domain offers. `days` replaces the length of the mode's term.
    """
    if mode != ADMIN and mode not in offers:
        return RegistrationModeNotAllowed(
            f"This platform domain does not offer {shown(mode)}. Give {' or '.join([ADMIN, *offers])}."
        )
    period_days = offers[mode].period_days if mode in offers else PERIOD_DAYS
    return Offer(platform_domain_id, mode, 0, 0, period_days if days is None else days, None)
