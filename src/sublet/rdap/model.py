"""What RDAP reveals of a name, and its status there (rules; docs/decisions/0024-rdap.md)."""

from datetime import datetime

import msgspec

from sublet.dns.types import Delegation


class PublicName(msgspec.Struct, frozen=True):
    """The fields of a live name that determine its RDAP answer. It has none about its registrant.

    `is_listed` is true if everyone sees the platform domain. Of other names only is public what the DNS has:
    that they have records, or the delegation.
    """

    fqdn: str
    delegation: Delegation
    record_count: int
    generation: int
    published_generation: int
    registered_at: datetime
    expires_at: datetime
    last_renewed_at: datetime | None
    generation_at: datetime | None
    suspended_at: datetime | None
    unsuspended_at: datetime | None
    is_listed: bool

    @property
    def served(self) -> Delegation:
        """The delegation that the DNS has.

        Empty while the name is suspended, or while its last change isn't published.
        """
        is_served = self.suspended_at is None and self.generation == self.published_generation
        return self.delegation if is_served else Delegation()

    @property
    def status(self) -> str:
        """The status of the name (RFC 8056).

        The state `expired` is `active`: the DNS has the name, and its expiration is in the past.
        """
        if self.suspended_at is not None:
            return "server hold"
        if self.generation != self.published_generation:
            return "pending update" if self.published_generation else "pending create"
        return "active" if self.delegation.nameservers or self.record_count else "inactive"

    @property
    def last_changed_at(self) -> datetime:
        """The instant of the last change that the answer shows.

        Offers, notes and other settings of the registrant don't count.
        """
        changes = (self.last_renewed_at, self.generation_at, self.suspended_at, self.unsuspended_at)
        return max(self.registered_at, *(each for each in changes if each is not None))
