"""Check the registry: what `sublet doctor` asks of names and their zones."""

from collections.abc import Iterator
from datetime import timedelta

from sublet.db import Tx
from sublet.dns.delegation import check_delegation
from sublet.dns.types import DsInput, GlueInput
from sublet.invariants import Violation
from sublet.platform_domains import store as platform_domain_store
from sublet.subdomains import check_charge_store, check_milestone_store, check_store, look_alike_store
from sublet.subdomains.check_dependents import IndexedHosts
from sublet.subdomains.check_life import check_lives
from sublet.subdomains.check_zones import check_zones
from sublet.subdomains.model import Subdomain
from sublet.subdomains.naming import canonical_domain

WAITING_MAX = timedelta(minutes=5)


def check_registry(tx: Tx, *, free_quota: int) -> list[Violation]:
    """Return every broken invariant of the names, their terms and charges, and the zones as the name server has them.

    A quota that was lowered below what a user holds is reported too: the operator did it, and sees whom it concerns.
    """
    return [
        *check_store.list_names_held_twice(tx),
        *check_store.list_broken_terms(tx),
        *check_charge_store.list_wrong_charges(tx),
        *check_charge_store.list_unpaid_terms(tx),
        *check_charge_store.list_foreign_charges(tx),
        *check_charge_store.list_wrong_coupon_uses(tx),
        *check_store.list_held_without_user(tx),
        *look_alike_store.list_wrong_skeletons(tx),
        *check_store.list_users_over_quota(tx, free_quota),
        *check_store.list_waiting_too_long(tx, WAITING_MAX),
        *check_lives(tx),
        *check_milestone_store.list_wrong_milestones(tx),
        *check_milestone_store.list_wrong_mails(tx),
        *_check_rows(tx),
        *platform_domain_store.list_unaudited(tx),
        *check_zones(tx),
    ]


def _check_rows(tx: Tx) -> Iterator[Violation]:
    indexed = IndexedHosts(tx)
    for subdomain in check_store.stream_all(tx):
        yield from _check_row(subdomain)
        yield from indexed.check(subdomain)


def _check_row(subdomain: Subdomain) -> Iterator[Violation]:
    delegation = subdomain.delegation
    checked, errors = check_delegation(
        subdomain.fqdn,
        delegation.nameservers,
        [GlueInput(each.host, each.ipv4, each.ipv6) for each in delegation.glue],
        [
            DsInput(each.key_tag, each.algorithm, each.digest_type, each.digest)
            for each in delegation.ds_records
        ],
        nameservers_min=0,
        nameservers_max=13,
    )
    if errors:
        yield Violation(
            "delegation_is_valid", "subdomain", subdomain.id, "; ".join(each.message for each in errors)
        )
    elif checked != delegation:
        yield Violation(
            "delegation_is_valid", "subdomain", subdomain.id, "it is not stored in its canonical form"
        )
    if subdomain.purged_at is not None and delegation.nameservers:
        yield Violation(
            "purged_is_empty", "subdomain", subdomain.id, "a purged name still has its delegation"
        )
    if subdomain.fqdn != f"{subdomain.label}.{subdomain.domain}":
        yield Violation(
            "fqdn", "subdomain", subdomain.id, f"{subdomain.fqdn} is not its label under its platform domain"
        )
    elif subdomain.fqdn != canonical_domain(subdomain.fqdn):
        sentence = f"{subdomain.fqdn} is not in its canonical form, so another row may hold the same name"
        yield Violation("fqdn", "subdomain", subdomain.id, sentence)
