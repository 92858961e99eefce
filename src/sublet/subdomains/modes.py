"""The modes of a registration (spec, part 2; docs/spec-choices.md, "Modes and prices")."""

from collections.abc import Mapping
from datetime import datetime

from sublet.dns.names import shown
from sublet.errors import FieldError, Refusal, RegistrationModeNotAllowed
from sublet.platform_domains.labels import MODES_BY_CLASS
from sublet.platform_domains.model import ADMIN, MODES, Offer
from sublet.platform_domains.offers import PERIOD_DAYS
from sublet.subdomains.quota import Quota

NOTHING_WITHHELD: Mapping[str, datetime] = {}


def mode_errors(requested: str | None) -> list[FieldError]:
    """Return the errors in a requested mode: `registration_mode_invalid` if the mode is unknown."""
    # `admin` is a known mode, and `choose_mode` refuses it with another code.
    if requested in (None, ADMIN, *MODES):
        return []
    sentence = f"Choose one of {', '.join(MODES)}."
    return [FieldError("registration_mode", "registration_mode_invalid", sentence)]


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
    offered = [mode for mode in MODES_BY_CLASS[label_class] if mode in offers]
    usable = [mode for mode in offered if mode not in withheld]
    if requested is None:
        affordable = [offers[mode] for mode in usable if quota.allows(mode)]
        if affordable:
            return affordable[0]
        if usable:
            return quota.refusal()
        if offered:
            return _withheld_refusal(offered[0], withheld[offered[0]])
        return RegistrationModeNotAllowed(
            "This platform domain does not offer this label now. Choose another label."
        )
    if requested == ADMIN:
        return RegistrationModeNotAllowed("Only the operator registers names as admin. Choose another one.")
    if requested not in offered:
        choice = " or ".join(offered) or "another label"
        return RegistrationModeNotAllowed(f"This label can't be registered as {requested}. Choose {choice}.")
    if requested in withheld:
        return _withheld_refusal(requested, withheld[requested])
    if not quota.allows(requested):
        return quota.refusal("register this one for credits") if len(usable) > 1 else quota.refusal()
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
