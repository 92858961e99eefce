"""Handlers of the account and its credits (spec, part 4, "Account and credits")."""

from collections.abc import Callable, Iterator
from typing import Any

from sublet.accounts.find import find_member
from sublet.accounts.model import Member
from sublet.accounts.set_reminders import set_reminders
from sublet.credits import store
from sublet.credits import store as ledger_store
from sublet.credits.model import Outcome
from sublet.db import Tx
from sublet.http import shapes
from sublet.http.bodies import AccountBody, EmailCodeBody, PageQuery, RemindersBody
from sublet.http.endpoints import Answer, Call
from sublet.http.idempotency import write_once
from sublet.http.paging import read_page
from sublet.http.render import (
    me_answer,
    platform_domain_shape,
)
from sublet.ids import Position
from sublet.platform_domains import store as platform_domain_store
from sublet.sign_in.change_account import AccountChange, change_account, confirm_email, count_attempt
from sublet.subdomains import store as subdomain_store
from sublet.subdomains.quota import Quota, quota_limit


async def me(call: Call[None, None]) -> Answer:
    """Get the user, the organization and the token of the request.

    Returns the user and the organization that the token identifies, and the token with its scopes and dates. With a session `token` is null.
    """
    registrant = call.registrant
    return Answer(me_answer(Member(registrant.user, registrant.organization), registrant.token))


async def set_reminders_(call: Call[RemindersBody, None]) -> Answer:
    """Turn reminders on or off.

    With `enabled`: true the user gets mail before dates of the names, such as an expiry. Answers to tickets are always mailed.
    """

    def verb(tx: Tx) -> Outcome:
        return Outcome(set_reminders(tx, call.actor(), call.body.enabled).user.id)

    return await _changed(call, verb)


async def change_account_(call: Call[AccountBody, None]) -> Answer:
    """Change the account.

    `name` and `reminders` change at once. A new `email` requires a sign-in within the last ten minutes: it gets a code, which POST /me/email
    takes, and the current address gets a notice.
    """

    def verb(tx: Tx) -> Outcome:
        body = call.body
        change = AccountChange(body.name, body.email, body.reminders)
        return Outcome(change_account(tx, call.actor(), change, call.client.public_url).user.id)

    return await _changed(call, verb)


async def confirm_email_(call: Call[EmailCodeBody, None]) -> Answer:
    """Change the address: enter the code.

    Takes the `code` from the mail to the new address. The former address gets a notice.
    """

    def verb(tx: Tx) -> Outcome:
        return Outcome(confirm_email(tx, call.actor(), call.body.code, call.client.public_url).user.id)

    await call.context.db.write(count_attempt, call.actor())
    return await _changed(call, verb)


async def _changed(call: Call[Any, None], verb: Callable[[Tx], Outcome]) -> Answer:
    done = await write_once(call, 200, verb)
    member = await call.context.db.read(find_member, done.outcome.id)
    return Answer(me_answer(member, call.registrant.token), done.headers, done.status)


async def credits_(call: Call[None, None]) -> Answer:
    """Get the balance and the packages.

    Returns the user's balance in credits, and the packages of credits on sale.
    """
    holder_id = call.registrant.holder.id

    def read(tx: Tx) -> shapes.CreditsAnswer:
        packages = [shapes.PackageShape.of(package) for package in store.list_packages(tx)]
        return shapes.CreditsAnswer(
            credit_balance=ledger_store.find_balance(tx, holder_id), packages=packages
        )

    return Answer(await call.context.db.read(read))


async def payments(call: Call[None, PageQuery]) -> Answer:
    """List the payments.

    Returns purchases, charges, refunds, grants and adjustments of credits, newest first.
    """
    actor = call.actor()

    def find(tx: Tx, limit: int, after: Position | None) -> Iterator[tuple[Position, shapes.PaymentShape]]:
        for each in ledger_store.list_own_payments(tx, actor, limit, after):
            yield Position(each.created_at, each.id), shapes.PaymentShape.of(each)

    items, page, headers = await read_page(call, "payments", find)
    return Answer(shapes.PaymentsAnswer(payments=items, page=page), headers)


async def platform_domains(call: Call[None, PageQuery]) -> Answer:
    """List the platform domains.

    Returns the domains under which this account may register names, with their modes and prices.
    """
    actor, organization_id = call.actor(), call.registrant.organization.id

    def find(
        tx: Tx, limit: int, after: Position | None
    ) -> Iterator[tuple[Position, shapes.PlatformDomainShape]]:
        visible = platform_domain_store.list_visible(tx, actor, organization_id, limit, after)
        offers = platform_domain_store.list_offers_of(tx, [each.id for each in visible])
        for each in visible:
            yield Position(each.created_at, each.id), platform_domain_shape(each, offers.get(each.id, []))

    items, page, headers = await read_page(call, "platform_domains", find)
    return Answer(shapes.PlatformDomainsAnswer(platform_domains=items, page=page), headers)


async def free_subdomains(call: Call[None, None]) -> Answer:
    """Get the free quota.

    Returns the number of free names that the user holds, and their maximum. Names in the trash don't count.
    """
    holder = call.registrant.holder
    used = await call.context.db.read(subdomain_store.count_free, holder.id)
    quota = Quota(used, quota_limit(holder.free_quota, call.default_free_quota()))
    usage = shapes.UsageShape(used=quota.used, limit=quota.limit, remaining=quota.remaining)
    return Answer(shapes.UsageAnswer(usage=usage))
