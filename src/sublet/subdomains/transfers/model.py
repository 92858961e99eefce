"""Transfers of names between users: the type and the states."""

from datetime import datetime, timedelta

from msgspec import Struct

PENDING, ACCEPTED, DECLINED, WITHDRAWN, EXPIRED = "pending", "accepted", "declined", "withdrawn", "expired"
STATES = (PENDING, ACCEPTED, DECLINED, WITHDRAWN, EXPIRED)
DIRECTIONS = ("sent", "received")
VALID_FOR = timedelta(days=7)


class NameTransfer(Struct, frozen=True):
    """The offer of a name to an e-mail address.

    `to_user_id` is the user or organization that accepted or declined the offer.

    At `expires_at` the state that `state_at` returns becomes expired. `stored_state` stays pending until the
    sweep ends the transfer. `is_mailed` is true if the offer was mailed to the address.
    """

    id: int
    subdomain_id: int
    subdomain: str
    from_user_id: int
    sender: str
    recipient_email: str
    to_user_id: int | None
    stored_state: str
    is_mailed: bool
    created_at: datetime
    expires_at: datetime
    ended_at: datetime | None

    def state_at(self, now: datetime) -> str:
        """Return the state of the transfer at `now`."""
        return EXPIRED if self.stored_state == PENDING and self.expires_at <= now else self.stored_state


class TransferFilter(Struct, frozen=True):
    """The filters of a user's transfers. None means any."""

    state: str | None = None
    direction: str | None = None
