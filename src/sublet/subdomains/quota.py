"""The free quota: the maximum number of free names of a user (spec, part 8); and the stricter limits of new
users.

A registration counts the names in `availability.py` and is refused by `modes.choose_mode`; restores and
transfers are refused here.
"""

from datetime import datetime, timedelta

from msgspec import Struct

from sublet.accounts.model import User
from sublet.config import Settings, split_list
from sublet.db import Tx
from sublet.errors import FreeQuotaExceeded
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
        self, instead: str = "ask the operator for more", whose: str = "your quota"
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
