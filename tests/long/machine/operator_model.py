"""The model's other half: what the operator, the publisher, staff and time do (docs/cli.md,
docs/spec-choices.md).
"""

from typing import Any

from long.machine.model import Model
from long.machine.world import DAY, Coupon, Effect, Listed, Name, Offer, Refused

_DAYS = ("renewal_window_days", "grace_days", "trash_days", "cooling_off_days")


class OperatorModel(Model):
    """The model, except for the effects of time, which are in `time_model`."""

    # Credits and coupons

    def grant_credits(self, *, to: str, credit_count: int) -> Effect:
        """`sublet credits grant`."""
        if credit_count < 1:
            raise Refused("validation_failed")
        return self._moves(to, "grant", credit_count, "credits.grant")

    def adjust_credits(self, *, to: str, credit_count: int) -> Effect:
        """`sublet credits adjust`: never below 0."""
        if credit_count == 0:
            raise Refused("validation_failed")
        if self.people[to].balance + credit_count < 0:
            raise Refused("conflict")
        return self._moves(to, "adjustment", credit_count, "credits.adjust")

    def record_payment(self, *, to: str, reference: str, credit_count: int) -> Effect:
        """`sublet payment record`: a reference counts once, for any user."""
        if not reference or credit_count < 1:
            raise Refused("validation_failed")
        if reference in self.references:
            raise Refused("conflict")
        effect = self._moves(to, "purchase", credit_count, "payment.record")

        def recorded() -> Any:
            self.references.add(reference)
            return effect()

        return recorded

    def refund_charge(self, *, transfer_id: int, credit_count: int | None) -> Effect:
        """`sublet credits refund`: a charge, once, at most what it took."""
        if not 1 <= transfer_id <= len(self.moved):
            raise Refused("not_found")
        charge = self.moved[transfer_id - 1]
        if charge.kind != "charge":
            raise Refused("conflict")
        back = -charge.credits if credit_count is None else credit_count
        if not 1 <= back <= -charge.credits:
            raise Refused("validation_failed")
        if any(each.refunded == transfer_id for each in self.moved):
            raise Refused("conflict")
        return self._moves(charge.who, "refund", back, "credits.refund", transfer_id)

    def _moves(
        self, who: str, kind: str, credit_count: int, action: str, refunded: int | None = None
    ) -> Effect:
        def effect() -> Any:
            self.audit[action] += 1
            return self.move(who, kind, credit_count, refunded)

        return effect

    def add_coupon(self, *, code: str, coupon: Coupon) -> Effect:
        """`sublet coupon add`: a code is never used twice."""
        over = coupon.valid_until and coupon.valid_until <= max(self.now, coupon.valid_from or self.now)
        if (coupon.percent is None) == (coupon.fixed is None) or over:
            raise Refused("validation_failed")
        if coupon.domain is not None and coupon.domain not in self.places:
            raise Refused("not_found")
        if code in self.coupons:
            raise Refused("conflict")

        def effect() -> Any:
            self.coupons[code] = coupon
            self.audit["coupon.add"] += 1

        return effect

    def retire_coupon(self, *, code: str) -> Effect:
        """`sublet coupon retire`."""
        coupon = self.coupons.get(code)
        if coupon is None:
            raise Refused("not_found")
        if coupon.retired:
            raise Refused("conflict")

        def effect() -> Any:
            coupon.retired = True
            self.audit["coupon.retire"] += 1

        return effect

    # Users

    def suspend_user(self, *, to: str) -> Effect:
        """`sublet user suspend`."""
        return self._hold(to, held=True, action="user.suspend")

    def unsuspend_user(self, *, to: str) -> Effect:
        """`sublet user unsuspend`."""
        return self._hold(to, held=False, action="user.unsuspend")

    def _hold(self, to: str, *, held: bool, action: str) -> Effect:
        person = self.people[to]
        if person.suspended == held:
            raise Refused("conflict")

        def effect() -> Any:
            person.suspended = held
            self.audit[action] += 1

        return effect

    def edit_quota(self, *, to: str, quota: int | None) -> Effect:
        """`sublet user edit --free-quota`; None takes the user back to the setting's."""
        if quota is not None and quota < 0:
            raise Refused("validation_failed")

        def effect() -> Any:
            if self.people[to].quota != quota:
                self.people[to].quota = quota
                self.audit["user.edit"] += 1

        return effect

    # Names

    def suspend(self, *, what: str) -> Effect:
        """`sublet subdomain suspend`."""
        return self._held(what, held=True)

    def unsuspend(self, *, what: str) -> Effect:
        """`sublet subdomain unsuspend`: grace and trash start again now."""
        return self._held(what, held=False)

    def _held(self, what: str, *, held: bool) -> Effect:
        name = self._any(what)
        if name.purged_at or (name.suspended_at is not None) == held:
            raise Refused("conflict")

        def effect() -> Any:
            name.suspended_at = self.now if held else None
            name.unsuspended_at = name.unsuspended_at if held else self.now
            self._change(name)
            self.audit["subdomain.suspend" if held else "subdomain.unsuspend"] += 1

        return effect

    def operator_restore(self, *, what: str) -> Effect:
        """`sublet subdomain restore`: the name is unchanged and not extended; so it is refused after its
        grace.
        """
        name = self._any(what)
        ends_at = self.grace_ends_at(name)
        if name.purged_at or not name.trashed_at or (ends_at and ends_at <= self.now):
            raise Refused("conflict")
        return lambda: self.bring_back(name)

    def purge(self, *, what: str, release: bool) -> Effect:
        """`sublet subdomain purge [--release]`: released only after the DNS has confirmed the removal."""
        name = self._any(what)
        done = name.released_at or (name.purged_at and not release)
        early = release and (self.waits(name) or self.depended_on(name.fqdn))
        if not name.trashed_at or done or early:
            raise Refused("conflict")

        def effect() -> Any:
            if not name.purged_at:
                self.purge_now(name, follow=not release)
            if release:
                self.release_now(name)

        return effect

    def purge_now(self, name: Name, *, follow: bool) -> None:
        """End a name's time in the trash."""
        name.purged_at = name.updated_at = self.now
        before = name.nameservers
        name.nameservers, name.glue, name.ds = (), (), ()
        if follow:
            self._change(name)
        self.drop(name, before)
        self.audit["subdomain.purge"] += 1

    def release_now(self, name: Name) -> None:
        """End a name's cooling-off."""
        name.released_at = name.updated_at = self.now
        name.dropped.clear()
        self.audit["subdomain.release"] += 1

    def _any(self, what: str) -> Name:
        found = self.holder(what) if "." in what else next((n for n in self.names if str(n.id) == what), None)
        if found is None:
            raise Refused("not_found")
        return found

    # Platform domains

    def edit_platform_domain(self, *, domain: str, changes: dict[str, Any], force: bool) -> Effect:
        """`sublet domain edit`: days that would take names at once are refused, unless that is meant."""
        place = self.places.get(domain)
        if place is None:
            raise Refused("not_found")
        after = {**place.settings, **changes}
        days = [value for name, value in changes.items() if name.endswith("_days")]
        if (
            not changes
            or any(each < 0 for each in days)
            or after["nameservers_min"] > after["nameservers_max"]
        ):
            raise Refused("validation_failed")
        lost, before = self._taken(domain), place.settings
        place.settings = after
        more = [now > then for now, then in zip(self._taken(domain), lost, strict=True)]
        place.settings = before
        if any(more) and not force:
            raise Refused("conflict")

        def effect() -> Any:
            if after != place.settings:
                for each in self.names:  # new due dates, if the days changed
                    if each.domain == domain and any(place.settings[name] != after[name] for name in _DAYS):
                        each.looked_at = None
                place.settings = after
                self.audit["platform_domain.edit"] += 1

        return effect

    def _taken(self, domain: str) -> tuple[int, int]:
        """How many names time takes by now: to the trash, and out of it."""
        here = [each for each in self.names if each.domain == domain and not each.purged_at]
        live = [self.grace_ends_at(each) for each in here if not each.trashed_at]
        trashed = [self.trash_ends_at(each) for each in here if each.trashed_at]
        return (
            sum(bool(each and each <= self.now) for each in live),
            sum(bool(each and each <= self.now) for each in trashed),
        )

    def offer_mode(
        self, *, domain: str, mode: str, price: int | None, renewal_price: int | None, days: int | None
    ) -> Effect:
        """`sublet domain offer`: omitted options stay; at first a renewal costs the
        same as a registration.
        """
        place = self.places.get(domain)
        if place is None:
            raise Refused("not_found")
        before = place.offers.get(mode)
        if before is None and mode == "free" and price is None:
            price = 0
        first = Offer(price, price, 365) if price is not None else None
        old = before or first
        if old is None:
            raise Refused("validation_failed")
        offer = Offer(
            old.price if price is None else price,
            old.renewal_price if renewal_price is None else renewal_price,
            old.days if days is None else days,
        )
        if offer.price < 0 or (mode == "free" and (offer.price or offer.renewal_price)) or offer.days < 1:
            raise Refused("validation_failed")

        def effect() -> Any:
            if offer != place.offers.get(mode):
                place.offers[mode] = offer
                self.audit["platform_domain.offer"] += 1

        return effect

    def withdraw_offer(self, *, domain: str, mode: str) -> Effect:
        """`sublet domain offer --withdraw`: no new names, renewals go on."""
        place = self.places.get(domain)
        offer = place.offers.get(mode) if place else None
        if offer is None:
            raise Refused("not_found")
        if offer.withdrawn:
            raise Refused("conflict")

        def effect() -> Any:
            offer.withdrawn = True
            self.audit["platform_domain.withdraw_offer"] += 1

        return effect

    def set_label(self, *, domain: str, label: str, listed: Listed) -> Effect:
        """`sublet label set`: replaces the list; it counts for new registrations and prices only."""
        place = self.places.get(domain)
        if place is None:
            raise Refused("not_found")
        priced = listed.price is not None or listed.renewal_price is not None
        if (
            "_" in label
            or (priced and listed.kind in ("reserved", "blocked"))
            or (listed.organizations and listed.kind != "special")
        ):
            raise Refused("validation_failed")

        def effect() -> Any:
            if place.labels.get(label) != listed:
                place.labels[label] = listed
                self.audit["label.set"] += 1

        return effect

    # Publishing

    def due_for_publishing(self, domain: str) -> list[Name]:
        """Which names of a platform domain wait, and are not backing off."""
        return [
            each
            for each in self.names
            if each.domain == domain
            and self.waits(each)
            and (each.next_attempt_at is None or each.next_attempt_at <= self.now)
        ]

    def published(self, name: Name, generation: int) -> None:
        """A generation was read back."""
        if generation > name.published_generation:
            name.published_generation = generation
            self.audit["subdomain.publish"] += 1
        if generation == name.generation:
            name.failed, name.attempts, name.next_attempt_at = False, 0, None

    def not_published(self, name: Name, generation: int, attempts: int) -> bool:
        """A generation could not be published; tells whether that counts still: then it is tried again after
        a pause.
        """
        counts = generation == name.generation and self.waits(name)
        if counts:
            name.failed = True
            name.attempts += 1
        if counts and attempts == 0:
            self.audit["subdomain.publish_failed"] += 1
        return counts

    # What must be wrong at this instant, for the doctor to tell

    def expected_violations(self) -> set[tuple[str, int]]:
        """Users over a quota that was lowered (or passed by by the operator), names that wait for more than 5
        minutes.
        """
        over = {
            ("free_quota", number)
            for number, who in enumerate(self.people, 1)
            if self.free_used(who) > self.quota(who)
        }
        late = {
            ("nothing_waits", each.id)
            for each in self.names
            if self.waits(each) and each.generation_at < self.now - DAY / 288
        }
        return over | late
