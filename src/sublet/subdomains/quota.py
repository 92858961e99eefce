"""The free quota: how many free names a user holds and may hold (spec, part 8). `store.count_free` counts."""

from dataclasses import dataclass

from sublet.errors import FreeQuotaExceeded


@dataclass(frozen=True, slots=True)
class Quota:
    """A user's free names: `used` are those held (names in the trash do not count), `limit` those allowed."""

    used: int
    limit: int

    @property
    def left(self) -> bool:
        """Whether one more free name may be held."""
        return self.remaining > 0

    @property
    def remaining(self) -> int:
        """How many more free names may be held; 0 where more are held than a lowered quota allows."""
        return max(0, self.limit - self.used)

    def refusal(self) -> FreeQuotaExceeded:
        """Return the refusal of one more free name; `details` has both numbers."""
        return FreeQuotaExceeded(
            f"All {self.limit} free names of your quota are in use; delete one first, or register in another mode.",
            details={"limit": self.limit, "used": self.used},
        )


def quota_limit(own: int | None, default: int) -> int:
    """Return how many free names a user may hold: its own quota, or the setting `free_quota` where it has none."""
    return default if own is None else own
