"""From the machine's words to the real verbs: one call for each, by the name that the model has for it."""

from collections.abc import Callable
from typing import Any

from long.machine.world import FREE_QUOTA, Coupon, Listed, Pay, Wish
from sublet.accounts.users import UserEdit, edit_user, suspend_user, unsuspend_user
from sublet.audit import Actor
from sublet.credits.coupons import CouponTerms, add_coupon, retire_coupon
from sublet.credits.entries import (
    ExternalPayment,
    adjust_credits,
    grant_credits,
    record_payment,
    refund_charge,
)
from sublet.credits.model import Payable
from sublet.db import Tx
from sublet.dns.types import GlueEntry
from sublet.platform_domains.labels import set_label
from sublet.platform_domains.offers import offer_mode, withdraw_offer
from sublet.subdomains.dates.set_auto_renew import set_auto_renew
from sublet.subdomains.delete import delete
from sublet.subdomains.edit_zone_settings import edit_zone_settings
from sublet.subdomains.model import Register, UpdateNameservers
from sublet.subdomains.purge import purge
from sublet.subdomains.register import register
from sublet.subdomains.renew import renew
from sublet.subdomains.restore import operator_restore, restore
from sublet.subdomains.retry import retry
from sublet.subdomains.suspend import suspend, unsuspend
from sublet.subdomains.update_nameservers import update_nameservers

Call = Callable[[Tx, Actor, dict[str, int], dict[str, Any]], Any]
"""Runs a verb, with the transaction, the actor, the ids of users and platform domains by name, and the
machine's arguments.
"""


def _payable(pay: Pay) -> Payable:
    return Payable(pay.confirm, pay.coupon, pay.max_credits, pay.may_spend)


def _glue(wish: Wish) -> tuple[GlueEntry, ...] | None:
    return None if wish.glue is None else tuple(GlueEntry(host, address) for host, address in wish.glue)


def _register(tx: Tx, actor: Actor, ids: dict[str, int], args: dict[str, Any]) -> Any:
    domain, label, wish = args["domain"], args["label"], args["wish"]
    selected: dict[str, Any] = {"fqdn": f"{label}.{domain}"}
    if args["by"] == "parts":
        selected = {"domain": domain, "label": label}
    elif args["by"] == "id":
        selected = {"platform_domain_id": ids.get(domain, 999), "label": label}
    command = Register(
        **selected,
        nameservers=wish.nameservers or (),
        glue=_glue(wish) or (),
        ds_records=wish.ds or (),
        registration_mode=args["mode"],
        payable=_payable(args["pay"]),
    )
    return register(tx, actor, command, free_quota=FREE_QUOTA)


def _update(tx: Tx, actor: Actor, _ids: dict[str, int], args: dict[str, Any]) -> Any:
    wish = args["wish"]
    command = UpdateNameservers(wish.nameservers, _glue(wish), wish.ds)
    return update_nameservers(tx, actor, args["what"], command)


def _record_payment(tx: Tx, actor: Actor, ids: dict[str, int], args: dict[str, Any]) -> Any:
    made = ExternalPayment(args["reference"], credits=args["credit_count"], amount="9.90", currency="EUR")
    return record_payment(tx, actor, str(ids[args["to"]]), made)


def _add_coupon(tx: Tx, actor: Actor, _ids: dict[str, int], args: dict[str, Any]) -> Any:
    coupon: Coupon = args["coupon"]
    terms = CouponTerms(
        coupon.percent,
        coupon.fixed,
        coupon.max_uses,
        coupon.max_uses_per_user,
        coupon.valid_from,
        coupon.valid_until,
        coupon.action,
        coupon.domain,
        coupon.mode,
    )
    return add_coupon(tx, actor, args["code"], terms)


def _edit_quota(tx: Tx, actor: Actor, ids: dict[str, int], args: dict[str, Any]) -> Any:
    quota = args["quota"]
    edit = UserEdit(default_free_quota=True) if quota is None else UserEdit(free_quota=quota)
    return edit_user(tx, actor, str(ids[args["to"]]), edit)


def _offer(tx: Tx, actor: Actor, _ids: dict[str, int], args: dict[str, Any]) -> Any:
    return offer_mode(
        tx,
        actor,
        args["domain"],
        args["mode"],
        price_credits=args["price"],
        renewal_price_credits=args["renewal_price"],
        period_days=args["days"],
    )


def _set_label(tx: Tx, actor: Actor, _ids: dict[str, int], args: dict[str, Any]) -> Any:
    listed: Listed = args["listed"]
    return set_label(
        tx,
        actor,
        args["domain"],
        args["label"],
        listed.kind,
        price_credits=listed.price,
        renewal_price_credits=listed.renewal_price,
        organizations=listed.organizations,
    )


CALLS: dict[str, Call] = {
    "register": _register,
    "update_nameservers": _update,
    "retry": lambda tx, actor, _, args: retry(tx, actor, args["what"]),
    "renew": lambda tx, actor, _, args: renew(tx, actor, args["what"], _payable(args["pay"])),
    "set_auto_renew": lambda tx, actor, _, args: set_auto_renew(
        tx, actor, args["what"], args["ceiling"], may_spend=args["may_spend"]
    ),
    "delete": lambda tx, actor, _, args: delete(tx, actor, args["what"]),
    "restore": lambda tx, actor, _, args: restore(
        tx, actor, args["what"], _payable(args["pay"]), free_quota=FREE_QUOTA
    ),
    "grant_credits": lambda tx, actor, ids, args: grant_credits(
        tx, actor, str(ids[args["to"]]), args["credit_count"], "test"
    ),
    "adjust_credits": lambda tx, actor, _, args: adjust_credits(
        tx, actor, f"{args['to']}@example.org", args["credit_count"]
    ),
    "record_payment": _record_payment,
    "refund_charge": lambda tx, actor, _, args: refund_charge(
        tx, actor, args["transfer_id"], args["credit_count"]
    ),
    "add_coupon": _add_coupon,
    "retire_coupon": lambda tx, actor, _, args: retire_coupon(tx, actor, args["code"].lower()),
    "suspend_user": lambda tx, actor, ids, args: suspend_user(tx, actor, str(ids[args["to"]]), "a reason"),
    "unsuspend_user": lambda tx, actor, ids, args: unsuspend_user(tx, actor, str(ids[args["to"]])),
    "edit_quota": _edit_quota,
    "suspend": lambda tx, actor, _, args: suspend(tx, actor, args["what"], "a reason"),
    "unsuspend": lambda tx, actor, _, args: unsuspend(tx, actor, args["what"]),
    "operator_restore": lambda tx, actor, _, args: operator_restore(tx, actor, args["what"]),
    "purge": lambda tx, actor, _, args: purge(tx, actor, args["what"], release=args["release"]),
    "edit_platform_domain": lambda tx, actor, _, args: edit_zone_settings(
        tx, actor, args["domain"], args["changes"], force=args["force"]
    ),
    "offer_mode": _offer,
    "withdraw_offer": lambda tx, actor, _, args: withdraw_offer(tx, actor, args["domain"], args["mode"]),
    "set_label": _set_label,
}
