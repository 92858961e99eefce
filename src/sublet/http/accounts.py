"""Handlers of the account and its credits (spec, part 4, "Account and credits")."""

from sublet.accounts.find import find_user, member_of
from sublet.accounts.model import Member
from sublet.accounts.set_reminders import set_reminders
from sublet.credits import package_store
from sublet.credits import store as ledger_store
from sublet.credits.model import Outcome
from sublet.db import Tx
from sublet.http import shapes
from sublet.http.bodies import PageQuery, RemindersBody
from sublet.http.endpoints import Answer, Call
from sublet.http.idempotency import write_once
from sublet.http.paging import make_page, position_of
from sublet.http.render import (
    organization_shape,
    package_shape,
    payment_shape,
    platform_domain_shape,
    user_shape,
)
from sublet.ids import Position
from sublet.platform_domains import store as platform_domain_store
from sublet.platform_domains.model import Offer, PlatformDomain
from sublet.platform_domains.visibility import is_visible
from sublet.subdomains import store as subdomain_store
from sublet.subdomains.quota import Quota, quota_limit


async def me(call: Call[None, None]) -> Answer:
    """Who the token stands for."""
    registrant = call.registrant
    return Answer(
        shapes.MeAnswer(
            user=user_shape(registrant.user), organization=organization_shape(registrant.organization)
        )
    )


async def put_reminders(call: Call[RemindersBody, None]) -> Answer:
    """Turn reminders on or off, and tell who the token stands for, as it then is."""

    def verb(tx: Tx) -> Outcome:
        return Outcome(set_reminders(tx, call.actor(), call.body.enabled).user.id)

    def read(tx: Tx) -> Member:
        return member_of(tx, find_user(tx, str(done.outcome.id)))

    done = await write_once(call, 200, verb)
    member = await call.context.db.read(read)
    answer = shapes.MeAnswer(
        user=user_shape(member.user), organization=organization_shape(member.organization)
    )
    return Answer(answer, done.headers, done.status)


async def credits_(call: Call[None, None]) -> Answer:
    """The balance, and what can be purchased."""
    user_id = call.registrant.user.id

    def read(tx: Tx) -> shapes.CreditsAnswer:
        packages = [package_shape(package) for package in package_store.list_packages(tx)]
        return shapes.CreditsAnswer(credit_balance=ledger_store.find_balance(tx, user_id), packages=packages)

    return Answer(await call.context.db.read(read))


async def payments(call: Call[None, PageQuery]) -> Answer:
    """The account's history, newest first."""
    after = position_of(call, "payments")
    user_id = call.registrant.user.id
    found = await call.context.db.read_apart(ledger_store.list_payments, user_id, call.query.limit + 1, after)
    items, page, headers = make_page(call, "payments", found, lambda each: Position(each.created_at, each.id))
    return Answer(shapes.PaymentsAnswer(payments=[payment_shape(item) for item in items], page=page), headers)


async def platform_domains(call: Call[None, PageQuery]) -> Answer:
    """The platform domains that this account sees, newest first; the others are as if they did not exist."""
    after = position_of(call, "platform_domains")
    organization_id = call.registrant.organization.id

    def read(tx: Tx) -> tuple[list[PlatformDomain], dict[int, list[Offer]]]:
        granted = platform_domain_store.granted_platform_domain_ids(tx, organization_id)
        offers: dict[int, list[Offer]] = {}
        for offer in platform_domain_store.list_all_offers(tx):
            offers.setdefault(offer.platform_domain_id, []).append(offer)
        return [
            each for each in platform_domain_store.list_platform_domains(tx) if is_visible(each, granted)
        ], offers

    visible, offers = await call.context.db.read_apart(read)
    if after is not None:
        visible = [each for each in visible if (each.created_at, each.id) < (after.at, after.id)]
    found = visible[: call.query.limit + 1]
    items, page, headers = make_page(
        call, "platform_domains", found, lambda each: Position(each.created_at, each.id)
    )
    rendered = [platform_domain_shape(item, offers.get(item.id, [])) for item in items]
    return Answer(shapes.PlatformDomainsAnswer(platform_domains=rendered, page=page), headers)


async def free_subdomains(call: Call[None, None]) -> Answer:
    """The free quota and how much of it is used; names in the trash do not count."""
    user = call.registrant.user
    used = await call.context.db.read(subdomain_store.count_free, user.id)
    quota = Quota(used, quota_limit(user.free_quota, call.context.settings.free_quota))
    usage = shapes.UsageShape(used=quota.used, limit=quota.limit, remaining=quota.remaining)
    return Answer(shapes.UsageAnswer(usage=usage))
