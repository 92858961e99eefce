"""`sublet coupon …`: coupons."""

from datetime import UTC, datetime
from typing import Annotated

import typer

from sublet.cli.commands import new_app
from sublet.cli.output import Answer, Table
from sublet.cli.session import Session, change, question
from sublet.counted import counted
from sublet.credits import store
from sublet.credits.coupons import COUPON_ACTIONS, COUPON_MODES, CouponTerms, add_coupon, retire_coupon

app = new_app("Add, list and retire coupons.")

_FORMATS = ["%Y-%m-%d", "%Y-%m-%dT%H:%M:%SZ"]


@change(app, "add")
def add(
    session: Session,
    code: Annotated[str, typer.Argument(metavar="CODE", help="What the user sends; in any case.")],
    percent: Annotated[
        int | None, typer.Option("--percent", metavar="N", help="Percent off, rounded down.")
    ] = None,
    fixed: Annotated[int | None, typer.Option("--fixed", metavar="CREDITS", help="Credits off.")] = None,
    max_uses: Annotated[int | None, typer.Option("--max-uses", metavar="N", help="In all.")] = None,
    max_uses_per_user: Annotated[
        int | None, typer.Option("--max-uses-per-user", metavar="N", help="How often each user may use it.")
    ] = None,
    valid_from: Annotated[
        datetime | None, typer.Option("--valid-from", formats=_FORMATS, help="In UTC.")
    ] = None,
    valid_until: Annotated[
        datetime | None, typer.Option("--valid-until", formats=_FORMATS, help="In UTC; no longer valid then.")
    ] = None,
    action: Annotated[
        str | None, typer.Option("--action", metavar="ACTION", help=f"Only for: {', '.join(COUPON_ACTIONS)}.")
    ] = None,
    domain: Annotated[
        str | None, typer.Option("--domain", metavar="DOMAIN", help="Only for this platform domain.")
    ] = None,
    mode: Annotated[
        str | None, typer.Option("--mode", metavar="MODE", help=f"Only for: {', '.join(COUPON_MODES)}.")
    ] = None,
) -> Answer:
    """Add a coupon that takes percent or credits off."""
    terms = CouponTerms(
        percent=percent,
        fixed_credits=fixed,
        max_uses=max_uses,
        max_uses_per_user=max_uses_per_user,
        valid_from=valid_from.replace(tzinfo=UTC) if valid_from else None,
        valid_until=valid_until.replace(tzinfo=UTC) if valid_until else None,
        action=action,
        domain=domain,
        registration_mode=mode,
    )
    coupon = session.write(add_coupon, code, terms)
    return Answer(coupon, (f"Added the coupon {coupon.code}.",))


@question(app, "list")
def list_coupons(session: Session) -> Answer:
    """List all coupons, newest first."""
    coupons = session.read(store.list_coupons)
    rows = tuple(
        (
            each.code,
            f"{each.value} %" if each.kind == "percent" else counted(each.value, "credit"),
            f"{each.uses} of {each.max_uses}" if each.max_uses is not None else each.uses,
            each.valid_from,
            each.valid_until,
            each.retired_at,
        )
        for each in coupons
    )
    columns = ("code", "takes off", "used", "valid from", "until", "retired")
    return Answer(coupons, table=Table(columns, rows, "There are no coupons."))


@change(app, "retire")
def retire(
    session: Session, code: Annotated[str, typer.Argument(metavar="CODE", help="See `sublet coupon list`.")]
) -> Answer:
    """Let a coupon be used no more."""
    coupon = session.write(retire_coupon, code)
    return Answer(coupon, (f"The coupon {coupon.code} is retired.",))
