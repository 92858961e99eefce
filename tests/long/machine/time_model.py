"""The model's part of time: what the sweep does, and automatic renewal (docs/spec-choices.md, "Subdomain
states").
"""

from collections.abc import Sequence
from datetime import timedelta
from typing import Any

from long.machine.operator_model import OperatorModel
from long.machine.world import DAY, Effect, Name, Pay, Refused

AWAY = 7 * DAY
SEEN = timedelta(minutes=1)
"""How exact it is remembered when the sweep last ran."""
PAUSE = timedelta(minutes=1)
"""How long a name that cooled off waits if its removal was not published at the last check."""


class Registry(OperatorModel):
    """The whole model."""

    def set_auto_renew(self, who: str, *, what: str, ceiling: int | None, may_spend: bool) -> Effect:
        """PUT …/auto-renew: a ceiling in credits, or None for off; another one is tried at once."""
        name = self._own(who, what)
        if name.suspended_at:
            raise Refused("subdomain_suspended")
        if ceiling is not None and ceiling < 0:
            raise Refused("validation_failed")
        if ceiling and not may_spend:
            raise Refused("insufficient_scope")

        def effect() -> Any:
            if name.auto_renew_max_credits != ceiling:
                name.auto_renew_max_credits, name.auto_renew_tried_at = ceiling, None
                name.updated_at = self.now
                self.audit["subdomain.set_auto_renew"] += 1
            return name.id, 0

        return effect

    def sweep_stops(self) -> bool:
        """Return True if the sweep must stop first: the clock is far ahead of its last sweep."""
        return self.now - self.swept_at > AWAY

    def tries(self) -> set[int]:
        """Return the names that are due for automatic renewal."""
        return {each.id for each in self.names if self._tries(each)}

    def _tries(self, name: Name) -> bool:
        if name.auto_renew_max_credits is None or name.trashed_at or name.suspended_at:
            return False
        if name.attempted_at == self.now:
            return False  # once in an instant, though another ceiling was set since
        opens_at, ends_at = self.renewal_opens_at(name), self.grace_ends_at(name)
        tried_at = name.auto_renew_tried_at
        if not tried_at or tried_at < opens_at:
            return self.now >= opens_at
        again_at = tried_at + DAY
        if ends_at and tried_at < ends_at < again_at:  # the last one, before it is lost
            again_at = ends_at
        return self.now >= again_at

    def sweep(self, order: Sequence[int]) -> list[str]:
        """Apply the due steps; `order` is that of the renewals, which share one balance.

        Return their outcomes.
        """
        if self.sweep_stops() or self.now - self.swept_at >= SEEN:
            self.swept_at = self.now
        came = [self._try(self.names[number - 1]) for number in order]
        self._follow()
        while lost := [name for name in self.names if self._is_lost(name)]:
            for name in lost:
                self._lose(name)
            self._follow()
        return came

    def _try(self, name: Name) -> str:
        name.auto_renew_tried_at = name.attempted_at = self.now
        try:
            self._acting(name.who)
            pay = Pay(confirm=True, max_credits=name.auto_renew_max_credits)
            self._extend(name.who, name, "renew", pay)()
        except Refused:
            self.audit["subdomain.auto_renew_failed"] += 1
            return "auto_renew_failed"
        return "auto_renewed"

    def _is_lost(self, name: Name) -> bool:
        if name.purged_at:
            return False
        ends_at = self.trash_ends_at(name) if name.trashed_at else self.grace_ends_at(name)
        return ends_at is not None and ends_at <= self.now

    def _lose(self, name: Name) -> None:
        """Live after its grace: to the trash; after its time there: purged."""
        if name.trashed_at:
            self.purge_now(name, follow=True)
        else:
            self.trash(name)
            self.audit["subdomain.trash"] += 1

    def _follow(self) -> None:
        """Nameservers below a purged name go; cooled off, out of the DNS, and nothing depends on it: free."""
        cooling_off = [name for name in self.names if name.purged_at and not name.released_at]
        for label in cooling_off:
            for name, left in self.dependents(label):
                glue = tuple(each for each in name.glue if each[0] in left)
                self.delegate(name, left, glue, name.ds if left else ())
                self.audit["subdomain.remove_nameservers"] += 1
        for name in cooling_off:
            assert name.purged_at is not None
            days = self.places[name.domain].settings["cooling_off_days"]
            again_at = name.looked_at + PAUSE if name.looked_at else self.now
            if name.purged_at + days * DAY <= self.now and again_at <= self.now:
                if self.waits(name) or self.depended_on(name.fqdn):
                    name.looked_at = self.now
                else:
                    self.release_now(name)
