"""The machine: hypothesis draws verbs, crashes, restarts and jumps of the clock, and holds the registry
against the model.
"""

from collections import Counter
from datetime import datetime, timedelta
from typing import Any

from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, rule

from long.machine.check import check_all, check_names, check_step
from long.machine.draws import (
    CODES,
    EDITS,
    GOOD_NAMES,
    HOWS,
    LABELS,
    LAPSES,
    NAMES,
    NUMBERS,
    OFFERS,
    PAYS,
    PICKS,
    WISHES,
    How,
    coupon,
    wish,
)
from long.machine.model import CLOCK_AHEAD_MAX
from long.machine.moves import all_moves, move
from long.machine.publisher import Held, begin, finish
from long.machine.real import START, Real
from long.machine.sweeper import sweep_all
from long.machine.time_model import Registry
from long.machine.world import Listed, Name, Pay, Refused, Wish

Request = tuple[str, str, dict[str, Any], str | None]
"""A registrant's request: verb, user, arguments, the `Idempotency-Key`."""

STEPS = 200
"""How many steps a run has; more would not fit into hypothesis' bounds of a test case."""
CHECK_STEPS = 100
"""After how many steps everything is compared, and the doctor asked."""

PEOPLE = ("ann", "ben", "cat", "dan")
OWNER = st.sampled_from((*[None] * 12, *PEOPLE))
"""The user who acts on a name: its owner (None), or any user."""
WHO = st.sampled_from(PEOPLE)
DOMAIN = st.sampled_from(("one.test", "two.test", "three.test"))


class Tally:
    """Counts the verbs of this process by their outcome; `step` counts the steps of the current run."""

    def __init__(self) -> None:
        self.outcomes: Counter[tuple[str, str]] = Counter()
        self.example = 0
        self.step = 0
        self.failed_at: str | None = None

    @property
    def operations(self) -> int:
        """How many operations there were."""
        return sum(self.outcomes.values())


TALLY = Tally()


class _Moves(RuleBasedStateMachine):
    """One run: a fresh registry and a fresh model of it, then whatever is drawn."""

    def __init__(self) -> None:
        super().__init__()
        self.real = Real()
        self.model = Registry(START)
        self.held: Held | None = None
        self.last: Request = ("renew", "ann", {"what": "nothing.one.test", "pay": Pay()}, None)
        self.last_keyed: Request = self.last
        sweep_all(self.real, self.model)
        TALLY.example += 1
        TALLY.step = 0

    def teardown(self) -> None:
        """At rest, nothing may be wrong but what the model says."""
        try:
            self._settle()
        finally:
            self.real.close()

    def _settle(self) -> None:
        for _ in range(4):
            self._pass(timedelta(minutes=2))
            sweep_all(self.real, self.model)
            for domain in self.model.places:
                finish(self.real, self.model, begin(self.real, self.model, domain), "published")
        assert not any(self.model.waits(each) for each in self.model.names)
        check_all(self.real, self.model, at_rest=True)

    # What every rule goes through

    def send(self, verb: str, who: str | None, how: How, **args: Any) -> None:
        """Do it to both, and compare."""
        request = repr((verb, args))
        key = how.key if who is not None else None
        effect, refused, replay = None, None, None
        told = {name: value for name, value in args.items() if name != "by"}
        try:
            replay = self.model.recall(who, key, request) if who is not None and key is not None else None
            if replay is None:
                method = getattr(self.model, verb)
                effect = method(who, **told) if who is not None else method(**told)
        except Refused as refusal:
            refused = refusal
        got = self.real.send(verb, who, key, args, crash=how.crash)
        if got.refusal is not None:
            self._compare_refusal(verb, refused, got.refusal)
            came = got.refusal.code
        elif got.crashed:
            assert how.crash
            assert effect is not None, (verb, "got through", refused and refused.code)
            came = "(crash)"
        elif got.replayed:
            assert replay is not None, (verb, "replayed")
            came = "(replayed)"
            assert (got.result.id, got.result.charged_credits) == replay
        else:
            assert effect is not None, (verb, "got through", refused and refused.code)
            came = "(done)"
            outcome = effect()
            if who is not None:
                assert (got.result.id, got.result.charged_credits) == outcome, (verb, outcome, got.result)
                if key is not None:
                    self.model.remember(who, key, request, outcome)
                    self.last_keyed = (verb, who, args, key)
            elif outcome is not None and hasattr(got.result, "entry"):
                assert got.result.entry.id == outcome
        self._done(verb, came, self._touched(args))

    def _compare_refusal(self, verb: str, refused: Refused | None, got: Any) -> None:
        assert refused is not None, (verb, got.code, got.message)
        assert refused.code == got.code, (verb, refused.code, got.code, got.message)
        seen = dict(got.details)
        if got.quote is not None:
            seen |= {"price": got.quote.price, "balance": got.quote.balance}
        assert refused.details.items() <= seen.items(), (verb, got.code, refused.details, seen)
        assert ("in_trash" in seen) == ("in_trash" in refused.details), (verb, seen)

    def _touched(self, args: dict[str, Any]) -> Name | None:
        what = args.get("what") or (f"{args['label']}.{args['domain']}" if "wish" in args else None)
        if what is None:
            return None
        found = [each for each in self.model.names if what in (each.fqdn, str(each.id))]
        return found[-1] if found else None

    def _done(self, verb: str, came: str, touched: Name | None = None) -> None:
        TALLY.outcomes[verb, came] += 1
        TALLY.step += 1
        check_step(self.real, self.model, touched)
        if TALLY.step % CHECK_STEPS == 0 and TALLY.step < STEPS:  # at the end of a run it is asked anyway
            check_all(self.real, self.model)

    def _pass(self, time: timedelta) -> None:
        self.real.now += time
        self.model.now = self.real.now

    def _pass_till(self, instant: datetime) -> None:
        self._pass(max(timedelta(0), instant - self.model.now))

    def _free(self, number: int) -> tuple[str, str]:
        """Return a free name by its number."""
        free = [each for each in GOOD_NAMES if self.model.holder(".".join(each)) is None] or GOOD_NAMES
        return free[number % len(free)]

    def _pick(self, pick: int) -> tuple[str, Name | None]:
        """Return a name by its number from the newest, as id or fqdn: live, held, former or unknown."""
        names = self.model.names
        if pick < 20:
            names = [each for each in names if not each.trashed_at] or names
        elif pick < 26:
            names = [each for each in names if not each.purged_at] or names
        if not names or pick >= 30:
            return "nothing.one.test" if pick % 2 else "999", None
        name = names[-1 - pick // 2 % len(names)]
        return (name.fqdn if pick % 2 else str(name.id)), name

    def _named(self, verb: str, owner: str | None, pick: int, how: How, **args: Any) -> None:
        what, name = self._pick(pick)
        who = owner or (name.who if name else "ann")
        self.request(verb, who, how, what=what, **args)

    def request(self, verb: str, who: str, how: How, **args: Any) -> None:
        """Send a registrant's request, and keep it to be sent again."""
        self.last = (verb, who, args, how.key)
        self.send(verb, who, how, **args)

    # Registrants

    @move(
        4,
        who=WHO,
        name=NAMES,
        mode=st.sampled_from((None, None, "free", "plus", "plus", "premium", "special", "admin", "bogus")),
        number=WISHES,
        pay=PAYS,
        how=HOWS,
        by=st.sampled_from(("fqdn", "parts", "id")),
    )
    def register(
        self, who: str, name: tuple[str, str], mode: str | None, number: int, pay: Pay, how: How, by: str
    ) -> None:
        label, domain = name
        self.request(
            "register",
            who,
            how,
            domain=domain,
            label=label,
            mode=mode,
            wish=wish(number % 15, f"{label}.{domain}"),
            pay=pay,
            by=by,
        )

    @move(5, who=WHO, number=NUMBERS, how=HOWS)
    def register_free(self, who: str, number: int, how: How) -> None:
        """A plain free name with two nameservers."""
        label, domain = self._free(number)
        names = {"domain": domain, "label": label, "wish": wish(1, f"{label}.{domain}")}
        self.request("register", who, how, mode="free", pay=Pay(), by="fqdn", **names)

    @move(5, who=WHO, number=NUMBERS, pay=PAYS, how=HOWS)
    def register_paid(self, who: str, number: int, pay: Pay, how: How) -> None:
        """Whatever paid mode takes the label, with a nameserver below the name."""
        label, domain = self._free(number)
        names = {"domain": domain, "label": label, "wish": wish(3, f"{label}.{domain}")}
        mode = None if label in ("gold", "vip", "ab") else "plus"
        self.request("register", who, how, mode=mode, pay=pay, by="parts", **names)

    @move(6, owner=OWNER, pick=PICKS, number=WISHES, how=HOWS)
    def update_nameservers(self, owner: str | None, pick: int, number: int, how: How) -> None:
        _, name = self._pick(pick)
        wanted = wish(number, name.fqdn if name else "nothing.one.test")
        self._named("update_nameservers", owner, pick, how, wish=wanted)

    @move(2, owner=OWNER, pick=PICKS, how=HOWS)
    def retry(self, owner: str | None, pick: int, how: How) -> None:
        self._named("retry", owner, pick, how)

    @move(4, owner=OWNER, pick=PICKS, pay=PAYS, how=HOWS)
    def renew(self, owner: str | None, pick: int, pay: Pay, how: How) -> None:
        self._named("renew", owner, pick, how, pay=pay)

    @move(4, pick=PICKS, pay=PAYS, how=HOWS, again=st.booleans())
    def renew_in_time(self, pick: int, pay: Pay, how: How, again: bool) -> None:
        """When its time has come; perhaps sent again, since the answer was lost."""
        _, name = self._pick(pick)
        if name is not None and not name.purged_at:
            self._pass_till(self.model.renewal_opens_at(name))
        for _ in range(1 + again):
            self._named("renew", None, pick, how, pay=pay)

    @move(3, owner=OWNER, pick=PICKS, how=HOWS)
    def delete(self, owner: str | None, pick: int, how: How) -> None:
        self._named("delete", owner, pick, how)

    @move(6, owner=OWNER, pick=PICKS, pay=PAYS, how=HOWS)
    def restore(self, owner: str | None, pick: int, pay: Pay, how: How) -> None:
        trashed = [each for each in self.model.names if self.model.restorable(each)]
        if trashed and pick < 24:
            name = trashed[-1 - pick % len(trashed)]
            if pick < 6:
                self.send("edit_quota", None, How(), to=name.who, quota=0)
            self.request("restore", owner or name.who, how, what=name.fqdn, pay=pay)
        else:
            self._named("restore", owner, pick, how, pay=pay)

    @move(3, pick=PICKS, pay=PAYS, how=HOWS)
    def restore_late(self, pick: int, pay: Pay, how: How) -> None:
        """Deleted in its last hour, and brought back after it."""
        _, name = self._pick(pick)
        if name is None or name.purged_at or name.suspended_at:
            return
        if not name.trashed_at:
            self._pass_till(name.expires_at - timedelta(hours=1))
            self.request("delete", name.who, How(), what=name.fqdn)
        if self.model.restorable(name):
            ends_at = self.model.trash_ends_at(name)
            self._pass_till(min(each for each in (name.expires_at, ends_at) if each))
        self.request("restore", name.who, how, what=name.fqdn, pay=pay)

    @move(2, pick=PICKS, how=HOWS)
    def fail_and_retry(self, pick: int, how: How) -> None:
        """The name servers don't follow, and the owner won't wait."""
        _, name = self._pick(pick)
        if name is not None and self.model.waits(name):
            self.publish(name.domain, "not_read_back")
        self._named("retry", None, pick, how)

    @move(
        2,
        who=WHO,
        number=NUMBERS,
        pick=PICKS,
        how=HOWS,
        verb=st.sampled_from(("register", "renew", "restore")),
    )
    def ask_by_a_wrong_clock(self, who: str, number: int, pick: int, how: How, verb: str) -> None:
        """The clock jumps so far ahead that no name gets dates from it, and back."""
        right = self.model.now
        self._pass_till(self.model.swept_at + CLOCK_AHEAD_MAX + timedelta(microseconds=1))
        if verb == "register":
            self.register_free(who, number, how)
        else:
            self._named(verb, None, pick, how, pay=Pay(confirm=True))
        self._pass(right - self.model.now)

    @move(8, how=HOWS, same=st.booleans())
    def send_again(self, how: How, same: bool) -> None:
        """Repeat a registrant's last request, or the last successful request with a key, with that key."""
        verb, who, args, key = self.last if same else self.last_keyed
        self.send(verb, who, how if same else How(key, how.crash), **args)

    @move(
        3,
        owner=OWNER,
        pick=PICKS,
        ceiling=st.sampled_from((100, 100, 100, 5, 0, None, -1)),
        may_spend=st.sampled_from((True, True, True, False)),
        how=HOWS,
    )
    def set_auto_renew(
        self, owner: str | None, pick: int, ceiling: int | None, may_spend: bool, how: How
    ) -> None:
        self._named("set_auto_renew", owner, pick, how, ceiling=ceiling, may_spend=may_spend)

    # Time, crashes, publishing

    @move(6, by=LAPSES)
    def pass_time(self, by: timedelta) -> None:
        self._pass(by)
        self._done("pass_time", "(done)")

    @move(6)
    def sweep(self) -> None:
        """As the worker does, once all is done it tells nothing new."""
        met = sweep_all(self.real, self.model)
        TALLY.outcomes.update(("sweep", each) for each in met[:-1])
        self._done("sweep", met[-1])
        check_names(self.real, self.model)

    @move(1)
    def restart(self) -> None:
        self.real.restart()
        self._done("restart", "(done)")

    @move(
        8,
        domain=DOMAIN,
        fate=st.sampled_from(
            ("published", "published", "published", "not_read_back", "not_recorded", "not_sent")
        ),
    )
    def publish(self, domain: str, fate: str) -> None:
        finish(self.real, self.model, begin(self.real, self.model, domain), fate)
        self._done("publish", fate)

    @move(2, domain=DOMAIN)
    def begin_publishing(self, domain: str) -> None:
        """A publisher writes ahead, and is away for a while."""
        self.held = begin(self.real, self.model, domain)
        self._done("publish", "begun")

    @move(2, fate=st.sampled_from(("published", "not_read_back", "not_recorded")))
    def finish_publishing(self, fate: str) -> None:
        """The publisher continues, whatever happened since."""
        finish(self.real, self.model, self.held, fate)
        self.held = None
        self._done("publish", f"{fate} later")

    # The operator

    @move(3, to=WHO, credit_count=st.sampled_from((0, 1, 25, 400)), how=HOWS)
    def grant_credits(self, to: str, credit_count: int, how: How) -> None:
        self.send("grant_credits", None, how, to=to, credit_count=credit_count)

    @move(2, to=WHO, credit_count=st.sampled_from((-1, -30, None, None, -1000, 0, 7)), how=HOWS)
    def adjust_credits(self, to: str, credit_count: int | None, how: How) -> None:
        """Some, or (None) all but one there is."""
        if credit_count is None:
            credit_count = 1 - self.model.people[to].balance
        self.send("adjust_credits", None, how, to=to, credit_count=credit_count)

    @move(1, to=WHO, number=st.integers(0, 4), credit_count=st.sampled_from((50, 20, 0)), how=HOWS)
    def record_payment(self, to: str, number: int, credit_count: int, how: How) -> None:
        reference = f"p-{number}" if number else ""
        self.send("record_payment", None, how, to=to, reference=reference, credit_count=credit_count)

    @move(2, number=st.integers(0, 20), credit_count=st.sampled_from((None, None, 1, 1000)), how=HOWS)
    def refund_charge(self, number: int, credit_count: int | None, how: How) -> None:
        charges = [place for place, each in enumerate(self.model.moved, 1) if each.kind == "charge"]
        transfer_id = charges[-1 - number % len(charges)] if charges and number > 4 else number
        self.send("refund_charge", None, how, transfer_id=transfer_id, credit_count=credit_count)

    @move(2, code=CODES, terms=st.integers(0, 8), how=HOWS)
    def add_coupon(self, code: str, terms: int, how: How) -> None:
        self.send("add_coupon", None, how, code=code, coupon=coupon(terms, self.model.now))

    @move(2, code=CODES, again=st.booleans(), how=HOWS)
    def retire_coupon(self, code: str, again: bool, how: How) -> None:
        retired = [each for each, coupon in self.model.coupons.items() if coupon.retired]
        code = retired[0] if again and retired else code
        self.send("retire_coupon", None, how, code=code)

    @move(2, to=WHO, lift=st.sampled_from((True, True, True, False)), how=HOWS)
    def hold_user(self, to: str, lift: bool, how: How) -> None:
        held = [who for who, person in self.model.people.items() if person.suspended]
        to = held[0] if lift and held else to
        self.send("unsuspend_user" if lift else "suspend_user", None, how, to=to)

    @move(2, to=WHO, quota=st.sampled_from((None, None, 0, 1, 4, 6, -1)), how=HOWS)
    def edit_quota(self, to: str, quota: int | None, how: How) -> None:
        self.send("edit_quota", None, how, to=to, quota=quota)

    @move(4, pick=PICKS, lift=st.sampled_from((True, True, False)), how=HOWS)
    def hold_name(self, pick: int, lift: bool, how: How) -> None:
        held = [each for each in self.model.names if each.suspended_at and not each.purged_at]
        what, _ = self._pick(pick)
        if lift and held and pick < 24:
            what = held[-1 - pick % len(held)].fqdn
        self.send("unsuspend" if lift else "suspend", None, how, what=what)

    @move(5, pick=PICKS, verb=st.sampled_from(("purge", "purge", "release", "operator_restore")), how=HOWS)
    def end_trash(self, pick: int, verb: str, how: How) -> None:
        trashed = [each for each in self.model.names if each.trashed_at and not each.released_at]
        what, _ = self._pick(pick)
        if trashed and pick < 24:
            what = trashed[-1 - pick % len(trashed)].fqdn
        if verb == "operator_restore":
            self.send(verb, None, how, what=what)
        else:
            self.send("purge", None, how, what=what, release=verb == "release")

    @move(4, pick=PICKS, number=NUMBERS, back=st.booleans(), how=HOWS)
    def purge_below(self, pick: int, number: int, back: bool, how: How) -> None:
        """Have a name depend on another one, purge that one, and sweep; perhaps the dependent is in the trash
        by then.
        """
        live = [each for each in self.model.names if not each.trashed_at]
        if len(live) < 2:
            return
        label, name = live[-1 - number % len(live)], live[-1 - pick % len(live)]
        wanted = Wish((f"ns1.{label.fqdn}", "ns1.provider.example"), None, None)
        self.request("update_nameservers", name.who, how, what=name.fqdn, wish=wanted)
        if label is name or label.suspended_at:
            return
        self.request("delete", label.who, How(), what=label.fqdn)
        if back:
            self.sweep()
        self.send("purge", None, How(), what=label.fqdn, release=False)
        self.sweep()

    @move(3, domain=DOMAIN, changes=EDITS, force=st.booleans(), how=HOWS)
    def edit_platform_domain(self, domain: str, changes: dict[str, Any], force: bool, how: How) -> None:
        self.send("edit_platform_domain", None, how, domain=domain, changes=changes, force=force)

    @move(2, domain=DOMAIN, offer=OFFERS, how=HOWS)
    def offer_mode(self, domain: str, offer: dict[str, Any], how: How) -> None:
        self.send("offer_mode", None, how, domain=domain, **offer)

    @move(1, domain=DOMAIN, mode=st.sampled_from(("free", "plus", "premium", "special")), how=HOWS)
    def withdraw_offer(self, domain: str, mode: str, how: How) -> None:
        self.send("withdraw_offer", None, how, domain=domain, mode=mode)

    @move(1, name=NAMES, listed=LABELS, how=HOWS)
    def set_label(self, name: tuple[str, str], listed: Listed, how: How) -> None:
        label, domain = name
        self.send("set_label", None, how, domain=domain, label=label, listed=listed)


class Machine(_Moves):
    """The machine that hypothesis runs: one rule, which draws a move by its weight."""

    @rule(drawn=all_moves(_Moves))
    def step(self, drawn: tuple[str, dict[str, Any]]) -> None:
        name, args = drawn
        try:
            getattr(self, name)(**args)
        except Exception:
            TALLY.failed_at = TALLY.failed_at or f"run {TALLY.example}, step {TALLY.step + 1}, {name}"
            raise
