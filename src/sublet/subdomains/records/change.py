"""Change the records of a name (docs/api.md, "Records"): replace all RRsets, or those that are given."""

from collections.abc import Iterable
from typing import Any

from msgspec import Struct

from sublet import audit
from sublet.accounts.find import lock_holder
from sublet.audit import Actor
from sublet.credits.model import Outcome
from sublet.db import Tx
from sublet.dns.types import RecordSet, RecordSetInput
from sublet.errors import DelegationExists, FieldError, RecordsNotAllowed, TokenRestricted, validation_failed
from sublet.platform_domains.model import PlatformDomain
from sublet.platform_domains.store import find_platform_domain
from sublet.subdomains import store
from sublet.subdomains.find import find_in_account, refuse_over_changes_per_day, refuse_unless_allowed
from sublet.subdomains.lifecycle import has_nameserver
from sublet.subdomains.model import Subdomain
from sublet.subdomains.records.rule import check_records

CHANGE = "subdomain.update_records"


class ChangeRecords(Struct, frozen=True):
    """The unchecked RRsets of a request; None if they were not sent.

    `replaces_all` removes the RRsets that are not given.

    Otherwise an RRset without values is removed, and those that are not given stay.
    """

    record_sets: tuple[RecordSetInput, ...] | None
    replaces_all: bool = False


def change_records(
    tx: Tx, actor: Actor, identifier: str, command: ChangeRecords, *, changes_per_day: int = 0
) -> Outcome:
    """Change the records of a name, and have them published.

    Unchanged records are published again if the last attempt failed. `changes_per_day` is the maximum number
    of changes of a name's records within 24 hours; 0 means no limit.

    Raises, in this order:
        AccountSuspended: the user is suspended.
        SubdomainNotFound: the user has no such name, the token is not for the name, or the name is in the
            trash.
        SubdomainSuspended: the operator suspended the name.
        ValidationFailed: no RRsets were sent.
        DelegationExists: the name has nameservers.
        RecordsNotAllowed: the platform domain accepts no records, and RRsets with values are given.
        ValidationFailed: all invalid fields of the resulting records.
        TokenRestricted: the token may not change the records at one of the owners that would change.
        RateLimited: the records were changed too often.
    """
    lock_holder(tx, actor)
    subdomain = find_in_account(tx, actor, identifier)
    refuse_unless_allowed(subdomain, "update_nameservers", tx.now)
    if command.record_sets is None:
        raise validation_failed([FieldError("records", "required", "is missing; give it")])
    refuse_delegated(subdomain)
    platform_domain = find_platform_domain(tx, subdomain.platform_domain_id)
    assert platform_domain is not None  # noqa: S101 - the foreign key ensures it
    if any(each.values for each in command.record_sets):
        refuse_without_records(platform_domain)
    stored = None if command.replaces_all else subdomain.records
    wanted, errors = check_records(subdomain.fqdn, command.record_sets, platform_domain, stored=stored)
    if errors:
        raise validation_failed(errors)
    before, after = set(subdomain.records), set(wanted)
    refuse_restricted(actor, [each.name for each in before ^ after])
    if before != after or subdomain.provision_error is not None:
        refuse_over_changes_per_day(tx, subdomain.id, CHANGE, "records", changes_per_day)
        store.update_subdomain(tx, subdomain.id, **store.records_columns(wanted), **store.NEXT_GENERATION)
        audit.record(
            tx,
            actor,
            CHANGE,
            subdomain.id,
            before=_for_audit(before - after),
            after=_for_audit(after - before),
        )
    return Outcome(subdomain.id)


def refuse_delegated(subdomain: Subdomain) -> None:
    """Raise `DelegationExists` if a name has nameservers."""
    if has_nameserver(subdomain):
        raise DelegationExists(
            f"{subdomain.fqdn} has nameservers, which answer for it. Remove them first, or add "
            "the records at the DNS provider of these nameservers."
        )


def refuse_without_records(platform_domain: PlatformDomain) -> None:
    """Raise `RecordsNotAllowed` if the platform domain accepts no records."""
    if not platform_domain.accepts_records:
        raise RecordsNotAllowed(
            f"Names under {platform_domain.domain} can't have records. Set nameservers instead, or ask the "
            "operator to allow records."
        )


def refuse_restricted(actor: Actor, owners: Iterable[str]) -> None:
    """Raise `TokenRestricted` if the token may not change the records at one of these relative owners."""
    refused = sorted({each for each in owners if not actor.restrictions.allows_record(each)})
    if refused:
        raise TokenRestricted(
            f"This token may not change the records at {', '.join(refused)}. Change only the owners in its "
            "`record_names`, or use another token.",
            details={"restriction": "record_names"},
        )


def _for_audit(record_sets: Iterable[RecordSet]) -> dict[str, Any]:
    ordered = sorted(record_sets, key=lambda each: (each.name, each.type))
    return {"records": store.records_columns(ordered)["records"]}
