"""Handlers of the endpoints of credits, payments and the free quota (spec, part 4, "Account and credits")."""

from collections.abc import Iterator

from sublet.credits import store
from sublet.db import Tx
from sublet.http import response_structs
from sublet.http.endpoints import Answer, Call
from sublet.http.paging import read_page
from sublet.http.request_structs import PageQuery
from sublet.ids import Position
from sublet.subdomains import store as subdomain_store
from sublet.subdomains.quota import Quota, quota_limit


async def credits_(call: Call[None, None]) -> Answer[response_structs.CreditsAnswer]:
    """Get the balance and the packages.

    Returns the user's balance in credits, and the packages of credits on sale.
    """
    holder_id = call.registrant.holder.id

    def read(tx: Tx) -> response_structs.CreditsAnswer:
        packages = [response_structs.PackageShape.of(package) for package in store.list_packages(tx)]
        return response_structs.CreditsAnswer(
            credit_balance=store.find_balance(tx, holder_id), packages=packages
        )

    return Answer(await call.context.db.read(read))


async def payments(call: Call[None, PageQuery]) -> Answer[response_structs.PaymentsAnswer]:
    """List the payments.

    Returns purchases, charges, refunds, grants and adjustments of credits, newest first.
    """
    actor = call.actor()

    def find(
        tx: Tx, limit: int, after: Position | None
    ) -> Iterator[tuple[Position, response_structs.PaymentShape]]:
        for each in store.list_own_entries(tx, actor, limit, after):
            yield Position(each.created_at, each.id), response_structs.PaymentShape.of(each)

    items, page, headers = await read_page(call, "payments", find)
    return Answer(response_structs.PaymentsAnswer(payments=items, page=page), headers)


async def free_subdomains(call: Call[None, None]) -> Answer[response_structs.UsageAnswer]:
    """Get the free quota.

    Returns the number of free names that the user holds, and the maximum number. Names in the trash don't count.
    """
    holder = call.registrant.holder
    used = await call.context.db.read(subdomain_store.count_free, holder.id)
    quota = Quota(used, quota_limit(holder.free_quota, call.default_free_quota()))
    usage = response_structs.UsageShape(used=quota.used, limit=quota.limit, remaining=quota.remaining)
    return Answer(response_structs.UsageAnswer(usage=usage))
