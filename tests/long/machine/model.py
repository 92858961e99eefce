"""A model of the registry: what every verb must answer and change, written from the documents.

It imports nothing of the service. Its sources are docs/spec.md, docs/spec-choices.md, docs/errors.md and
docs/cli.md. It keeps everything in dictionaries and searches all of them for each question.

A method named after a verb checks the conditions in the documented order. It raises `Refused` with the error
code, or returns the effect as a function, which is called when the verb is committed. So a crash before the
commit needs no undo.
"""

from collections import Counter
from datetime import datetime
from typing import Any

from long.machine.world import (
    DAY,
    FREE_QUOTA,
    Effect,
    Listed,
    Moved,
    Name,
    Pay,
    Person,
    Place,
    Refused,
    Wish,
    coupons_at_first,
    people_at_first,
    places_at_first,
)

MODES = ("free", "plus", "premium", "special")
FITTING = {"standard": ("free", "plus"), "premium": ("premium",), "special": ("special",)}
CLOCK_AHEAD_MAX = 400 * DAY
"""How far after the last sweep the clock may be for names to get dates from it."""
RESERVED = ("www", "ns1")
"""Those of the labels used here that are reserved everywhere, unless the operator lists them."""


class Model:
    """The whole registry; what registrants and time do to it is here, the operator's part is in
    `operator_model`.
    """

    def __init__(self, now: datetime) -> None:
        self.now = now
        self.swept_at = now
        self.places = places_at_first()
        self.people = people_at_first()
        self.coupons = coupons_at_first()
        self.names: list[Name] = []
        self.moved = [
            Moved(who, "grant", person.balance, person.balance)
            for who, person in self.people.items()
            if person.balance
        ]
        self.references: set[str] = set()
        self.audit: Counter[str] = Counter()
        self.remembered: dict[tuple[str, str], tuple[object, Any, datetime]] = {}

    # Questions about a name

    def status(self, name: Name) -> str:
        """The status; the first that holds."""
        facts = (
            ("trashed", name.trashed_at),
            ("suspended", name.suspended_at),
            ("expired", name.expires_at <= self.now),
            ("failed", name.failed),
            ("provisioning", name.generation > name.published_generation),
            ("inactive", not name.nameservers),
        )
        return next((status for status, holds in facts if holds), "active")

    def renewal_opens_at(self, name: Name) -> datetime:
        """The window before the expiry, at most one term of it; a day of rest after the last renewal."""
        window: int = min(self.places[name.domain].settings["renewal_window_days"], name.period_days)
        opens_at = [name.expires_at - window * DAY]
        if name.last_renewed_at:
            opens_at.append(name.last_renewed_at + DAY)
        return max(opens_at)

    def grace_ends_at(self, name: Name) -> datetime | None:
        """When an unrenewed name is due for the trash; a suspended one never is."""
        return None if name.suspended_at else self._counted(name, name.expires_at, "grace_days")

    def trash_ends_at(self, name: Name) -> datetime | None:
        """When a name in the trash is due to be purged; a suspended one never is."""
        assert name.trashed_at is not None
        return None if name.suspended_at else self._counted(name, name.trashed_at, "trash_days")

    def _counted(self, name: Name, start: datetime, setting: str) -> datetime:
        begins = max(each for each in (start, name.unsuspended_at) if each)
        ends_at: datetime = begins + self.places[name.domain].settings[setting] * DAY
        return ends_at

    def restorable(self, name: Name) -> bool:
        """Whether its time in the trash runs still."""
        if not name.trashed_at or name.purged_at:
            return False
        ends_at = self.trash_ends_at(name)
        return ends_at is None or self.now < ends_at

    def free_used(self, who: str) -> int:
        """How many free names count against the quota."""
        return sum(
            each.who == who and each.registration_type == "free" and not each.trashed_at
            for each in self.names
        )

    def quota(self, who: str) -> int:
        """How many free names a user may hold."""
        own = self.people[who].quota
        return FREE_QUOTA if own is None else own

    def holder(self, fqdn: str) -> Name | None:
        """Return the owner of a name that is live, in the trash or cooling off."""
        held = [each for each in self.names if each.fqdn == fqdn and not each.released_at]
        assert len(held) <= 1, fqdn
        return held[0] if held else None

    def waits(self, name: Name) -> bool:
        """Whether the DNS does not follow yet."""
        return name.generation > name.published_generation

    # What registrants do

    def register(
        self, who: str, *, domain: str, label: str, mode: str | None, wish: Wish, pay: Pay
    ) -> Effect:
        """POST /subdomains."""
        person = self._acting(who)
        self._refuse_wrong_clock()
        place = self.places.get(domain)
        if place is None or not self.sees(person, place):
            raise Refused("platform_domain_not_found")
        if not place.settings["registration_open"]:
            raise Refused("registration_closed")
        fqdn = f"{label}.{domain}"
        kind = self._kind(person, place, label)
        runs = self._runs_in(who, place, kind, mode)
        listed = place.labels.get(label, Listed("standard"))
        price = 0
        if isinstance(runs, str):
            price = place.offers[runs].price
            if runs != "free" and listed.price is not None:
                price = listed.price
        wrong = [
            "_" in label,
            len(label) < place.settings["label_length_min"],
            self._is_wrong(fqdn, wish, place.settings["nameservers_min"], place.settings["nameservers_max"]),
            self._dangles(who, fqdn, wish.nameservers or ()),
            mode not in (None, "admin", *MODES),
            self._pay_is_wrong(who, pay, "register", domain, runs if isinstance(runs, str) else None, price),
        ]
        if any(wrong):
            raise Refused("validation_failed")
        self._refuse_unavailable(who, place, fqdn, label, kind)
        if not isinstance(runs, str):
            raise runs
        days = place.offers[runs].days
        price = self._check_payment(who, pay, price)
        name = Name(
            id=len(self.names) + 1,
            who=who,
            domain=domain,
            label=label,
            registration_type=runs,
            registered_at=self.now,
            expires_at=self.now + days * DAY,
            period_days=days,
            updated_at=self.now,
            generation_at=self.now,
            nameservers=wish.nameservers or (),
            glue=_in_order(wish.nameservers or (), wish.glue or ()),
            ds=wish.ds or (),
            generation=1 if wish.nameservers else 0,
        )

        def effect() -> Any:
            self.names.append(name)
            self.audit["subdomain.register"] += 1
            return self._charge(name, "register", self.now, price, pay)

        return effect

    def update_nameservers(self, who: str, *, what: str, wish: Wish) -> Effect:
        """PUT …/nameservers: omitted members are kept; glue of removed hosts is removed."""
        name = self._own(who, what)
        if name.suspended_at:
            raise Refused("subdomain_suspended")
        hosts = name.nameservers if wish.nameservers is None else wish.nameservers
        glue = wish.glue if wish.glue is not None else tuple(each for each in name.glue if each[0] in hosts)
        ds = name.ds if wish.ds is None else wish.ds
        settings = self.places[name.domain].settings
        least, most = settings["nameservers_min"], settings["nameservers_max"]
        if wish.nameservers is None:
            least, most = 1, 13
        new = tuple(each for each in hosts if each not in name.nameservers)
        if self._is_wrong(name.fqdn, Wish(hosts, glue, ds), least, most) or self._dangles(
            who, name.fqdn, new
        ):
            raise Refused("validation_failed")
        glue = _in_order(hosts, glue)

        def effect() -> Any:
            if (hosts, glue, ds) != (name.nameservers, name.glue, name.ds) or name.failed:
                self.delegate(name, hosts, glue, ds)
                self.audit["subdomain.update_nameservers"] += 1
            return name.id, 0

        return effect

    def retry(self, who: str, *, what: str) -> Effect:
        """POST …/retry."""
        name = self._own(who, what)
        if name.suspended_at:
            raise Refused("subdomain_suspended")
        if not name.nameservers:
            raise Refused("nameserver_required")
        if not name.failed:
            raise Refused("retry_not_available")

        def effect() -> Any:
            name.failed, name.attempts, name.next_attempt_at, name.updated_at = False, 0, None, self.now
            self.audit["subdomain.retry"] += 1
            return name.id, 0

        return effect

    def renew(self, who: str, *, what: str, pay: Pay) -> Effect:
        """POST …/renew."""
        self._acting(who)
        self._refuse_wrong_clock()
        name = self._own(who, what)
        if name.suspended_at:
            raise Refused("subdomain_suspended")
        opens_at = self.renewal_opens_at(name)
        if self.now < opens_at:
            raise Refused("renewal_not_available", opens_at=opens_at)
        return self._extend(who, name, "renew", pay)

    def delete(self, who: str, *, what: str) -> Effect:
        """DELETE: to the trash."""
        name = self._own(who, what)
        if name.suspended_at:
            raise Refused("subdomain_suspended")

        def effect() -> Any:
            self.trash(name)
            self.audit["subdomain.delete"] += 1
            return name.id, 0

        return effect

    def restore(self, who: str, *, what: str, pay: Pay) -> Effect:
        """POST …/restore: free within the paid time, by quote after it."""
        self._acting(who)
        self._refuse_wrong_clock()
        name = next((each for each in self._meant(who, what) if not each.purged_at), None)
        if name is None or (name.trashed_at and not self.restorable(name)):
            raise Refused("subdomain_not_found")
        if name.suspended_at:
            raise Refused("subdomain_suspended")
        if not name.trashed_at:
            raise Refused("conflict")
        if name.registration_type == "free" and self.free_used(who) >= self.quota(who):
            raise Refused("free_quota_exceeded", limit=self.quota(who), used=self.free_used(who))
        paid = self._extend(who, name, "restore", pay) if name.expires_at <= self.now else None

        def effect() -> Any:
            outcome = paid() if paid else (name.id, 0)
            self.bring_back(name)
            return outcome

        return effect

    # What several of them share

    def _acting(self, who: str) -> Person:
        if self.people[who].suspended:
            raise Refused("account_suspended")
        return self.people[who]

    def _refuse_wrong_clock(self) -> None:
        if self.now - self.swept_at > CLOCK_AHEAD_MAX or self.swept_at - self.now > DAY:
            raise Refused("clock_implausible")

    def _meant(self, who: str, what: str | None) -> list[Name]:
        return [
            each
            for each in self.names
            if each.who == who and not each.purged_at and what in (each.fqdn, str(each.id))
        ]

    def _own(self, who: str, what: str) -> Name:
        """The live name that is meant; it may be suspended."""
        self._acting(who)
        for name in self._meant(who, what):
            if not name.trashed_at:
                return name
            if self.restorable(name):
                raise Refused("subdomain_not_found", in_trash=True, restorable_until=self.trash_ends_at(name))
        raise Refused("subdomain_not_found")

    def sees(self, person: Person, place: Place) -> bool:
        """Whether a platform domain is there for a user's new registrations."""
        granted = not place.settings["restricted"] or person.organization in place.granted
        return granted and not place.settings["hidden"]

    def _kind(self, person: Person, place: Place, label: str) -> str:
        listed = place.labels.get(label)
        if listed is not None:
            others = listed.kind == "special" and person.organization not in listed.organizations
            return "reserved" if others else listed.kind
        if label in RESERVED:
            return "reserved"
        return "premium" if len(label) <= place.settings["premium_length_max"] else "standard"

    def _runs_in(self, who: str, place: Place, kind: str, mode: str | None) -> str | Refused:
        fitting = FITTING.get(kind, ())
        wanted = fitting if mode is None else (mode,)
        offered = [
            each
            for each in wanted
            if each in fitting and each in place.offers and not place.offers[each].withdrawn
        ]
        if not offered:
            return Refused("registration_mode_not_allowed")
        used, limit = self.free_used(who), self.quota(who)
        possible = [each for each in offered if each != "free" or used < limit]
        return possible[0] if possible else Refused("free_quota_exceeded", limit=limit, used=used)

    def _refuse_unavailable(self, who: str, place: Place, fqdn: str, label: str, kind: str) -> None:
        if kind in ("reserved", "blocked") or label == "ns1":  # the zone's own nameserver
            raise Refused("subdomain_unavailable", reason="reserved", owned=False)
        holder = self.holder(fqdn)
        if holder is not None:
            reason = "cooling_off" if holder.purged_at else "in_trash" if holder.trashed_at else "taken"
            owned = holder.who == who and not holder.purged_at
            raise Refused("subdomain_unavailable", reason=reason, owned=owned)
        if label in place.foreign:
            raise Refused("subdomain_unavailable", reason="taken", owned=False)
        if self.depended_on(fqdn, besides=who):
            raise Refused("subdomain_unavailable", reason="reserved", owned=False)

    def _is_wrong(self, fqdn: str, wish: Wish, least: int, most: int) -> bool:
        hosts, glue, ds = wish.nameservers or (), wish.glue or (), wish.ds or ()
        inside = [each for each in hosts if _lies_in(each, fqdn)]
        wrong = [
            any(" " in each for each in hosts),
            len(set(hosts)) < len(hosts),
            len(hosts) > most,
            0 < len(hosts) < least,
            any(host not in inside or address.startswith("10.") for host, address in glue),
            any(each not in {host for host, _ in glue} for each in inside),
            bool(ds) and not hosts,
        ]
        return any(wrong) or not self._can_be_found(fqdn, hosts)

    def _dangles(self, who: str, fqdn: str, hosts: tuple[str, ...]) -> bool:
        """Whether one of these hosts lies below a name that no user holds, or that is hidden and not in the
        DNS.
        """
        return any(not _lies_in(host, fqdn) and not self._is_held(who, host) for host in hosts)

    def _is_held(self, who: str, host: str) -> bool:
        domain = next((each for each in self.places if host.endswith("." + each)), None)
        if domain is None:
            return True
        place, label = self.places[domain], host.removesuffix("." + domain).rpartition(".")[2]
        public = not (place.settings["hidden"] or place.settings["restricted"])
        holder = self.holder(f"{label}.{domain}")
        if holder is None:
            listed = place.labels.get(label) if public else None
            reserved = listed.kind in ("reserved", "blocked") if listed else label in RESERVED
            return reserved or label == "ns1" or label in place.foreign
        served = holder.nameservers and not (holder.trashed_at or holder.suspended_at)
        return not holder.purged_at and (holder.who == who or public or bool(served))

    def depended_on(self, fqdn: str, besides: str | None = None) -> bool:
        """Whether others' names have nameservers at or below a name, or had some that
        the DNS may still have.
        """
        return any(
            _lies_in(host, fqdn) and not _lies_in(host, name.fqdn)
            for name in self.names
            if name.who != besides
            for host in (
                *name.nameservers,
                *(host for host, since in name.dropped.items() if since > name.published_generation),
            )
        )

    def dependents(self, label: Name) -> list[tuple[Name, tuple[str, ...]]]:
        """The names with nameservers at or below another one, each with the others of its nameservers."""
        found = [
            (name, tuple(host for host in name.nameservers if not _lies_in(host, label.fqdn)))
            for name in self.names
            if name is not label
        ]
        return [(name, left) for name, left in found if left != name.nameservers]

    def delegate(
        self, name: Name, hosts: tuple[str, ...], glue: tuple[tuple[str, str], ...], ds: tuple[str, ...]
    ) -> None:
        """Store a delegation, for the DNS to follow."""
        before = name.nameservers
        name.nameservers, name.glue, name.ds = hosts, glue, ds
        self._change(name, always=True)
        self.drop(name, before)

    def drop(self, name: Name, before: tuple[str, ...]) -> None:
        """Keep in mind which nameservers a name had until this generation."""
        for host in set(before) - set(name.nameservers):
            name.dropped[host] = name.generation
        for host in name.nameservers:
            name.dropped.pop(host, None)

    def _can_be_found(self, fqdn: str, hosts: tuple[str, ...]) -> bool:
        """Whether some nameserver can be found without going through the name itself, by growing the set of
        what can.
        """
        served = {each.fqdn: each.nameservers for each in self.names if not each.purged_at} | {fqdn: hosts}
        found: set[str] = {each for each, by in served.items() if not by}
        while True:
            more = set()
            for name, by in served.items():
                for host in by:
                    above = next((each for each in served if _lies_in(host, each)), None)
                    if above is None or above == name or (above in found and above != fqdn):
                        more.add(name)
            if more <= found:
                return fqdn in found
            found |= more

    def _pay_is_wrong(
        self, who: str, pay: Pay, action: str, domain: str, mode: str | None, price: int
    ) -> bool:
        if pay.max_credits is not None and pay.max_credits < 0:
            return True
        if pay.coupon is None:
            return False
        coupon = self.coupons.get(pay.coupon)
        if coupon is None or coupon.retired:
            return True
        if (coupon.valid_from and self.now < coupon.valid_from) or (
            coupon.valid_until and self.now >= coupon.valid_until
        ):
            return True
        limits = ((coupon.max_uses, len(coupon.used)), (coupon.max_uses_per_user, coupon.used.count(who)))
        if any(limit is not None and used >= limit for limit, used in limits):
            return True
        fits = (
            coupon.action in (None, action)
            and coupon.domain in (None, domain)
            and coupon.mode in (None, mode)
            and coupon.discount(price) > 0
        )
        return mode is not None and not fits

    def _check_payment(self, who: str, pay: Pay, list_price: int) -> int:
        price = list_price
        if pay.coupon is not None:
            price -= self.coupons[pay.coupon].discount(list_price)
        balance = self.people[who].balance
        if price and not pay.confirm:
            raise Refused("payment_confirmation_required", price=price, balance=balance)
        if price and not pay.may_spend:
            raise Refused("insufficient_scope")
        if price and pay.max_credits is not None and price > pay.max_credits:
            raise Refused("price_changed", price=price, balance=balance)
        if price > balance:
            raise Refused("insufficient_credits", price=price, balance=balance)
        return price

    def _extend(self, who: str, name: Name, action: str, pay: Pay) -> Effect:
        place = self.places[name.domain]
        offer = place.offers[name.registration_type]
        listed = place.labels.get(name.label, Listed("standard"))
        price = offer.renewal_price
        if name.registration_type != "free" and listed.renewal_price is not None:
            price = listed.renewal_price
        if self._pay_is_wrong(who, pay, action, name.domain, name.registration_type, price):
            raise Refused("validation_failed")
        price = self._check_payment(who, pay, price)
        starts_at = name.expires_at if name.expires_at + offer.days * DAY > self.now else self.now

        def effect() -> Any:
            name.expires_at = starts_at + offer.days * DAY
            name.period_days, name.last_renewed_at, name.updated_at = offer.days, self.now, self.now
            self.audit[f"subdomain.{action}"] += 1
            return self._charge(name, action, starts_at, price, pay)

        return effect

    def _charge(self, name: Name, action: str, starts_at: datetime, price: int, pay: Pay) -> Any:
        if price:
            self.move(name.who, "charge", -price)
        if pay.coupon is not None:
            self.coupons[pay.coupon].used.append(name.who)
        name.terms.append((action, starts_at, name.expires_at, price))
        return name.id, price

    def move(self, who: str, kind: str, credit_count: int, refunded: int | None = None) -> int:
        """Change a balance; return the id of the movement."""
        self.people[who].balance += credit_count
        assert self.people[who].balance >= 0
        self.moved.append(Moved(who, kind, credit_count, self.people[who].balance, refunded))
        return len(self.moved)

    def _change(self, name: Name, *, always: bool = False) -> None:
        """Mark that the DNS must follow, if the name was ever published."""
        name.updated_at = self.now
        if name.generation or always:
            name.generation += 1
            name.generation_at = self.now
            name.failed, name.attempts, name.next_attempt_at = False, 0, None

    def trash(self, name: Name) -> None:
        """Put a name into the trash."""
        name.trashed_at = self.now
        self._change(name)

    def bring_back(self, name: Name) -> None:
        """Take a name out of the trash."""
        name.trashed_at = None
        self._change(name)
        self.audit["subdomain.restore"] += 1

    # The same request again under one key

    def recall(self, who: str, key: str, request: object) -> Any:
        """Return the result stored under a key in the last 24 hours, or None."""
        known, outcome, at = self.remembered.get((who, key), (None, None, self.now))
        if outcome is None or at <= self.now - DAY:
            return None
        if known != request:
            raise Refused("idempotency_key_reused")
        return outcome

    def remember(self, who: str, key: str, request: object, outcome: Any) -> None:
        """Store a result under a key."""
        self.remembered[who, key] = (request, outcome, self.now)


def _lies_in(host: str, name: str) -> bool:
    return host == name or host.endswith("." + name)


def _in_order(hosts: tuple[str, ...], glue: tuple[tuple[str, str], ...]) -> tuple[tuple[str, str], ...]:
    return tuple(each for host in hosts for each in glue if each[0] == host)
