"""Handlers of the subdomain endpoints (spec, part 4, "Subdomains")."""

from collections.abc import Callable, Iterator
from dataclasses import replace
from datetime import datetime
from typing import Any, Concatenate, ParamSpec

from msgspec import UNSET

from sublet import audit
from sublet.credits.model import Outcome, Payable
from sublet.db import Tx
from sublet.dns.delegation import delegation_warnings
from sublet.dns.ds import dnskey_warnings
from sublet.dns.parent_servers import query_servers
from sublet.errors import Unavailable
from sublet.health.plan_delegation import plan_change, plan_registration
from sublet.http import response_structs
from sublet.http.conditional import only_if_match
from sublet.http.endpoints import Answer, Call
from sublet.http.health import NOT_CHECKED, PriorCheck, check_first
from sublet.http.idempotency import WriteResult, write_once
from sublet.http.paging import fetch_page, read_page
from sublet.http.query_limit import counted_as_querying
from sublet.http.render import (
    auto_renew_shape,
    availability_shape,
    coupon_shape,
    delegation_answer,
    provisioning_shape,
    subdomain_shape,
    timeline_answer,
)
from sublet.http.request_structs import (
    AutoRenewBody,
    AvailabilityQuery,
    NameserversBody,
    NoBody,
    RegisterBody,
    RenewBody,
    SubdomainsQuery,
    ds_inputs,
    glue_inputs,
    name_errors_as_sent,
    planned_registration,
    sent_ceiling,
    sent_nameservers,
)
from sublet.ids import Position
from sublet.subdomains import store
from sublet.subdomains.delete import delete
from sublet.subdomains.find import fetch_in_account, find_in_account, find_in_account_or_trash, not_found
from sublet.subdomains.lifecycle import is_published
from sublet.subdomains.list_store import list_own, own_pages
from sublet.subdomains.model import (
    Register,
    Registered,
    ShownSubdomain,
    Subdomain,
    SubdomainFilter,
    UpdateNameservers,
)
from sublet.subdomains.nameserver_notices import NOTICE, REMOVAL
from sublet.subdomains.nameservers import find_enclosed_nameservers_of_subdomain, registry_warnings
from sublet.subdomains.naming import canonical_domain
from sublet.subdomains.quota import Quota, quota_limit
from sublet.subdomains.register import register
from sublet.subdomains.renew import list_price_of_renewal, renew
from sublet.subdomains.restore import restore
from sublet.subdomains.retry import retry
from sublet.subdomains.served import report_served
from sublet.subdomains.set_auto_renew import set_auto_renew
from sublet.subdomains.sweep.store import list_milestones
from sublet.subdomains.timeline import EVENTS_BY_ACTION, PAST_EVENTS_MAX, last_attempt, timeline
from sublet.subdomains.update_nameservers import update_nameservers
from sublet.subdomains.view_availability import view_availability
from sublet.subdomains.view_delegation import stored_warnings, view_delegation

P = ParamSpec("P")


async def list_subdomains(call: Call[None, SubdomainsQuery]) -> Answer[response_structs.SubdomainsAnswer]:
    """List the user's subdomains.

    Returns the subdomains, newest first. Names in the trash are listed only with `status=trashed`.
    """
    query = call.query
    actor, holder = call.actor(), call.registrant.holder
    wanted = SubdomainFilter(
        status=query.status,
        domain=(canonical_domain(query.domain) or query.domain) if query.domain is not None else None,
        q=query.q,
        registration_type=query.registration_type,
        expires_before=query.expires_before,
        expires_after=query.expires_after,
        dnssec_enabled=query.dnssec_enabled,
        renewal_available=query.renewal_available,
        health=query.health,
        user_suspended=call.registrant.is_suspended,
    )

    def with_position(
        each: ShownSubdomain, now: datetime
    ) -> tuple[Position, response_structs.SubdomainShape]:
        return Position(each.created_at, each.id), _shape(call, each, now)

    def find(
        tx: Tx, limit: int, after: Position | None
    ) -> Iterator[tuple[Position, response_structs.SubdomainShape]]:
        for each in list_own(tx, actor, wanted, limit, after):
            yield with_position(each, tx.now)

    if (pages := own_pages(actor, wanted)) is not None:
        now = call.context.db.now()
        items, page, headers = await fetch_page(
            call, "subdomains", pages, lambda each: with_position(each, now), owner_id=holder.id
        )
    else:
        items, page, headers = await read_page(call, "subdomains", find)
    return Answer(response_structs.SubdomainsAnswer(subdomains=items, page=page), headers)


async def get_subdomain(call: Call[None, None]) -> Answer[response_structs.SubdomainAnswer]:
    """Get a subdomain.

    Returns the subdomain with this id or name. A name may have any case, a final dot, and U-labels or A-labels.
    """
    db = call.context.db
    subdomain = await fetch_in_account(db, call.actor(), call.path["fqdn"])
    return Answer(response_structs.SubdomainAnswer(subdomain=_shape(call, subdomain, db.now())))


async def timeline_(call: Call[None, None]) -> Answer[response_structs.TimelineAnswer]:
    """Get the timeline of a subdomain.

    Returns past events, oldest first, then the dates to come if nothing changes. The name may be in the user's trash. `allowed_actions` are
    the actions that the current state allows, including those that need a quote first.
    """
    holder = call.registrant.holder
    limit = quota_limit(holder.free_quota, call.default_free_quota())

    def read(tx: Tx) -> response_structs.TimelineAnswer:
        subdomain = find_in_account_or_trash(tx, call.actor(), call.path["fqdn"])
        events = timeline(
            subdomain,
            tx.now,
            terms=store.list_terms(tx, subdomain.id, PAST_EVENTS_MAX),
            milestones=list_milestones(tx, subdomain.id),
            changes=audit.list_changes(tx, "subdomain", subdomain.id, EVENTS_BY_ACTION, PAST_EVENTS_MAX),
            nameserver_events=audit.list_events(tx, "subdomain", [subdomain.id], (NOTICE, REMOVAL)),
            enclosed_nameservers=find_enclosed_nameservers_of_subdomain(tx, subdomain),
        )
        return timeline_answer(
            subdomain,
            events,
            tx.now,
            user_suspended=call.registrant.is_suspended,
            quota_left=Quota(store.count_free(tx, holder.id), limit).allows_one_more,
            warnings=stored_warnings(tx, subdomain),
        )

    return Answer(await call.context.db.read(read))


async def get_auto_renew(call: Call[None, None]) -> Answer[response_structs.AutoRenewAnswer]:
    """Get the automatic renewal.

    Returns whether the name is renewed automatically, its ceiling in credits, and the next and the last attempt.
    """

    def read(tx: Tx) -> response_structs.AutoRenewAnswer:
        subdomain = find_in_account(tx, call.actor(), call.path["fqdn"])
        return response_structs.AutoRenewAnswer(auto_renew=_read_auto_renew(tx, subdomain))

    return Answer(await call.context.db.read(read))


async def set_auto_renew_(call: Call[AutoRenewBody, None]) -> Answer[response_structs.SetAutoRenewAnswer]:
    """Set the automatic renewal.

    With `enabled`: true the name is renewed automatically once its renewal window is open, if the price is at most `max_credits`. This
    ceiling confirms the charge, so a ceiling above 0 needs the scope `credits:spend`. A failed attempt is repeated after a day. This request
    charges nothing.
    """
    done = await write_once(
        call,
        200,
        if_subdomain_matches(call, set_auto_renew),
        call.actor(),
        call.path["fqdn"],
        sent_ceiling(call.body),
        may_spend=_may_spend(call),
    )

    def read(tx: Tx) -> response_structs.SetAutoRenewAnswer:
        subdomain = _find_written(tx, call, done.outcome.id)
        return response_structs.SetAutoRenewAnswer(
            subdomain=_shape(call, subdomain, tx.now), auto_renew=_read_auto_renew(tx, subdomain)
        )

    return done.answer(await call.context.db.read(read))


async def register_(call: Call[RegisterBody, None]) -> Answer[response_structs.RegisterAnswer]:
    """Register a subdomain.

    Selects the platform domain by `platform_domain_id`, `domain` or the domain part of `fqdn`. If the name costs credits, the first answer
    is a quote (402) and registers nothing; the same request with `confirm`: true completes it. The answer waits up to a second for the
    DNS: `status` active means that the name server answers with the delegation.
    """
    body = call.body
    command = replace(
        planned_registration(body), registration_mode=body.registration_mode, payable=_payable(call, body)
    )
    checked = await check_first(call, plan_registration, call.actor(), call.registrant.holder, command)
    with name_errors_as_sent(body):
        done = await write_once(
            call,
            201,
            checked.guard(register),
            call.actor(),
            command,
            free_quota=call.default_free_quota(),
            withheld=call.withheld_modes(),
        )
    return await _register_answer(call, done, checked)


async def availability(call: Call[None, AvailabilityQuery]) -> Answer[response_structs.AvailabilityAnswer]:
    """Check whether a name can be registered.

    Returns whether the user can register this name now, and in which modes. Assumes valid nameservers and `confirm`: true. The answer reveals
    no more than an attempt to register. Select the name by `fqdn`, or by `label` and `domain`.
    """
    query = call.query
    found = await call.context.db.read(
        view_availability,
        call.actor(),
        call.registrant.holder,
        Register(fqdn=query.fqdn, label=query.label, domain=query.domain),
        free_quota=call.default_free_quota(),
        may_spend=_may_spend(call),
        withheld=call.withheld_modes(),
    )
    return Answer(response_structs.AvailabilityAnswer(availability=availability_shape(found)))


async def update_nameservers_(
    call: Call[NameserversBody, None],
) -> Answer[response_structs.ProvisionAnswer]:
    """Change nameservers, glue and DS records.

    A member that is left out keeps its stored value; an empty list or null clears it.
    """
    body, settings = call.body, call.context.settings
    command = UpdateNameservers(
        nameservers=sent_nameservers(body),
        glue=None if body.glue is UNSET else glue_inputs(body.glue or []),
        ds_records=None if body.ds_records is UNSET else ds_inputs(body.ds_records or []),
    )
    checked = await check_first(call, plan_change, call.actor(), call.path["fqdn"], command)
    with name_errors_as_sent(body):
        done = await write_once(
            call,
            200,
            checked.guard(if_subdomain_matches(call, update_nameservers)),
            call.actor(),
            call.path["fqdn"],
            command,
            changes_per_day=settings.nameserver_changes_per_day if settings.rate_limits else 0,
        )
    return await _provision_answer(call, done, checked)


async def retry_(call: Call[NoBody, None]) -> Answer[response_structs.ProvisionAnswer]:
    """Retry provisioning.

    Publishes a name after a failure now, instead of at the next automatic attempt.
    """
    done = await write_once(call, 200, if_subdomain_matches(call, retry), call.actor(), call.path["fqdn"])
    return await _provision_answer(call, done)


async def renew_(call: Call[RenewBody, None]) -> Answer[response_structs.RenewAnswer]:
    """Renew a subdomain.

    Adds one term to the current expiry. If the renewal costs credits, the first answer is a quote (402) and renews nothing.
    """
    payable = _payable(call, call.body)
    done = await write_once(
        call, 200, if_subdomain_matches(call, renew), call.actor(), call.path["fqdn"], payable
    )

    def read(tx: Tx) -> response_structs.RenewAnswer:
        shape = _shape(call, _find_written(tx, call, done.outcome.id), tx.now)
        renewal = response_structs.RenewalShape(
            expires_at=shape.expires_at,
            renewal_available=shape.renewal_available,
            charged_credits=done.outcome.charged_credits,
            coupon=coupon_shape(done.outcome.coupon),
        )
        return response_structs.RenewAnswer(subdomain=shape, renewal=renewal)

    return done.answer(await call.context.db.read(read))


async def restore_(call: Call[RenewBody, None]) -> Answer[response_structs.RegisterAnswer]:
    """Restore a subdomain from the trash.

    Costs nothing before the name's expiry. After the expiry it also renews the name, which may need a quote and `confirm`.
    """
    done = await write_once(
        call,
        200,
        if_subdomain_matches(call, restore),
        call.actor(),
        call.path["fqdn"],
        _payable(call, call.body),
        free_quota=call.default_free_quota(),
    )
    return await _register_answer(call, done)


async def delete_(call: Call[NoBody, None]) -> Answer[response_structs.DeleteAnswer]:
    """Delete a subdomain.

    Moves the name to the trash and removes it from the DNS. The name can be restored until it is purged.
    """
    done = await write_once(call, 200, if_subdomain_matches(call, delete), call.actor(), call.path["fqdn"])
    subdomain = await call.context.db.read(_find_written, call, done.outcome.id)
    deleted = response_structs.DeletedShape(id=subdomain.id, fqdn=subdomain.fqdn)
    return done.answer(response_structs.DeleteAnswer(deleted=deleted))


def if_subdomain_matches(
    call: Call[Any, Any], verb: Callable[Concatenate[Tx, P], Outcome]
) -> Callable[Concatenate[Tx, P], Outcome]:
    """Return a verb that first checks `If-Match` against the `ETag` of GET /subdomains/{fqdn}."""

    def show(tx: Tx) -> response_structs.SubdomainAnswer:
        subdomain = find_in_account(tx, call.actor(), call.path["fqdn"])
        return response_structs.SubdomainAnswer(subdomain=_shape(call, subdomain, tx.now))

    return only_if_match(call, verb, show)


def _payable(call: Call[Any, Any], body: RegisterBody | RenewBody) -> Payable:
    return Payable(
        confirm=body.confirm is True,
        coupon_code=body.coupon_code,
        max_credits=body.max_credits,
        may_spend=_may_spend(call),
    )


def _may_spend(call: Call[Any, Any]) -> bool:
    return "credits:spend" in call.registrant.restrictions.scopes


def _read_auto_renew(tx: Tx, subdomain: Subdomain) -> response_structs.AutoRenewShape:
    terms = store.list_terms(tx, subdomain.id, PAST_EVENTS_MAX)
    attempt = last_attempt(terms, list_milestones(tx, subdomain.id))
    return auto_renew_shape(subdomain, list_price_of_renewal(tx, subdomain), attempt, tx.now)


def _shape(call: Call[Any, Any], subdomain: ShownSubdomain, now: datetime) -> response_structs.SubdomainShape:
    return subdomain_shape(subdomain, now, user_suspended=call.registrant.is_suspended)


def _find_written(tx: Tx, call: Call[Any, Any], subdomain_id: int) -> Subdomain:
    """Return the current state of the subdomain that this request, or an earlier request with its Idempotency-Key, wrote.

    Raises, in this order:
        Unavailable: the row is missing. Rows of subdomains are never deleted, so the database has lost the write, because an asynchronous
            standby became the primary.
        SubdomainNotFound: the name has been transferred to another user since.
    """
    subdomain = store.find_subdomain(tx, subdomain_id)
    if subdomain is None:
        raise Unavailable(
            "The registry's database has lost this change before it was acknowledged. Send the same request again, with the same "
            "Idempotency-Key if it had one.",
            retry_after_seconds=1,
        )
    if subdomain.user_id != call.registrant.holder.id:
        raise not_found()
    return subdomain


async def _wait_for_publication(
    call: Call[Any, Any], done: WriteResult, checked: PriorCheck = NOT_CHECKED
) -> tuple[response_structs.SubdomainShape, response_structs.ProvisioningShape]:
    """Wait for the publication, at most `publish_wait_ms`, then return the shapes of the current state."""
    db = call.context.db
    wait_seconds = call.context.settings.publish_wait_ms / 1000 - checked.took_seconds
    registered = done.outcome if isinstance(done.outcome, Registered) else None
    subdomain = registered.subdomain if registered else None
    if subdomain is None or (wait_seconds > 0 and not is_published(subdomain)):
        await call.context.publication_waiter.wait(done.outcome.id, wait_seconds)
        subdomain = await db.read(_find_written, call, done.outcome.id)
    registry = registered.warnings if registered else await db.read(registry_warnings, subdomain)
    warnings = (
        *delegation_warnings(subdomain.delegation),
        *registry,
        *_warnings_of_body(call, subdomain),
        *checked.warnings,
    )
    return _shape(call, subdomain, db.now()), provisioning_shape(subdomain, warnings)


def _warnings_of_body(call: Call[Any, Any], subdomain: Subdomain) -> tuple[str, ...]:
    """Return the warnings about the flags of sent DNSKEYs, which aren't stored."""
    if not isinstance(call.body, (RegisterBody, NameserversBody)) or not call.body.ds_records:
        return ()
    return dnskey_warnings(subdomain.fqdn, ds_inputs(call.body.ds_records))


async def _provision_answer(
    call: Call[Any, Any], done: WriteResult, checked: PriorCheck = NOT_CHECKED
) -> Answer[response_structs.ProvisionAnswer]:
    subdomain, provisioning = await _wait_for_publication(call, done, checked)
    return done.answer(response_structs.ProvisionAnswer(subdomain=subdomain, provisioning=provisioning))


async def _register_answer(
    call: Call[Any, Any], done: WriteResult, checked: PriorCheck = NOT_CHECKED
) -> Answer[response_structs.RegisterAnswer]:
    subdomain, provisioning = await _wait_for_publication(call, done, checked)
    answer = response_structs.RegisterAnswer(
        subdomain=subdomain,
        provisioning=provisioning,
        charged_credits=done.outcome.charged_credits,
        coupon=coupon_shape(done.outcome.coupon),
    )
    return done.answer(answer)


async def delegation(call: Call[None, None]) -> Answer[response_structs.DelegationAnswer]:
    """Get the answers of the name servers for a subdomain.

    Returns a name's delegation as it is stored, as it was last published, and as each name server of the parent zone answers now, with a
    sentence for every difference. The name may be in the user's trash. All servers are queried at the same time; the entry of a server that
    doesn't answer within three seconds has an `error`.
    """
    db, actor, identifier = call.context.db, call.actor(), call.path["fqdn"]
    before = await db.read(view_delegation, actor, identifier)
    with counted_as_querying(call):
        answers = await query_servers(
            call.context.name_servers(before.platform_domain),
            before.platform_domain.domain,
            before.subdomain.fqdn,
            empty_owners=before.empty_owners,
        )
    # If the name changed during the queries, a server may have answered with the old delegation.
    view = await db.read(view_delegation, actor, identifier)
    report = report_served(
        view.subdomain,
        view.desired,
        answers,
        changed_meanwhile=view.desired != before.desired
        or view.subdomain.generation != before.subdomain.generation
        or view.subdomain.published_generation != before.subdomain.published_generation,
    )
    return Answer(delegation_answer(view.subdomain, report, view.warnings))
