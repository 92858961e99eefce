"""Derive the findings about the signatures of a name with DS records (rules)."""

from collections.abc import Iterable, Iterator
from datetime import datetime, timedelta

from sublet.health.answers import Judgement
from sublet.health.chain import ChainVerdict, supported_ds
from sublet.health.model import Finding, Level, Server, Target

EXPIRES_SOON = timedelta(days=3)
EXPIRES_SOON_PART = 4
"""Signatures expire soon if also less than this part of their validity is left (1/4).

Some servers sign for only two days.
"""
WEAK_ALGORITHMS = frozenset({1, 3, 5, 6, 7, 10, 12})


def signature_findings(target: Target, judgement: Judgement, now: datetime) -> Iterator[Finding]:
    """Yield the findings about the signatures of a name with DS records."""
    if not target.delegation.ds_records:
        return
    yield from parent_findings(target)
    servers = [each for each in judgement.working if each.chain is not None]
    if not supported_ds(target.delegation.ds_records) or not servers:
        return
    for each in servers:
        if each.chain is not None and each.chain.problem is not None:
            # A server whose SOA record alone is wrong, or whose keys another server has, fails no question.
            is_lost = any(each.fails(one) and one in judgement.lost for one in each.chains or ())
            level = Level.ERROR if is_lost else Level.WARNING
            yield _chain_finding(target, each.server, each.chain, level)
    chains = [each.chain for each in servers if each.chain is not None]
    yield from _expiry_findings(target, chains, now)
    yield from _algorithm_findings(target, chains)


def parent_findings(target: Target) -> Iterator[Finding]:
    """Yield the finding that the parent zone isn't signed, if the name has DS records. No server is asked."""
    if target.delegation.ds_records and not target.parent_signed:
        yield Finding(
            "parent_not_signed",
            Level.NOTICE,
            target.domain,
            f"{target.domain} isn't signed, so the DS records have no effect.",
            f"Keep them, and ask the operator to sign {target.domain}, or remove them.",
        )


def _chain_finding(target: Target, server: Server, chain: ChainVerdict, level: Level) -> Finding:
    tags = ", ".join(str(each.key_tag) for each in target.delegation.ds_records)
    code = {
        "without_key": "ds_without_key",
        "expired": "signatures_expire",
        "unproven": "denial_missing",
    }.get(chain.problem or "", "ds_broken")
    hint = {
        "ds_without_key": "Remove the DS records, or replace them with DS records of the zone's present key.",
        "signatures_expire": "Sign the zone again.",
        "denial_missing": "Sign the zone again. A firewall must not remove its NSEC or NSEC3 records.",
        "ds_broken": "Sign the zone again with a key that a DS record matches, or remove the DS records.",
    }[code]
    message = f"The answers of {server.host} don't validate with the DS records ({tags}): {chain.detail}."
    return Finding(code, level, server.host, message, hint)


def _expiry_findings(target: Target, chains: Iterable[ChainVerdict], now: datetime) -> Iterator[Finding]:
    for chain in chains:
        if chain.problem is None and chain.ends_at is not None and chain.validity is not None:
            left = chain.ends_at - now
            if left < min(EXPIRES_SOON, chain.validity / EXPIRES_SOON_PART):
                yield Finding(
                    "signatures_expire",
                    Level.WARNING,
                    target.fqdn,
                    f"Signatures of {target.fqdn} expire on {chain.ends_at:%Y-%m-%d %H:%M} UTC.",
                    "Sign the zone again before then.",
                )
                return


def _algorithm_findings(target: Target, chains: Iterable[ChainVerdict]) -> Iterator[Finding]:
    used = {each.algorithm for each in target.delegation.ds_records}.union(
        *(each.algorithms for each in chains)
    )
    for algorithm in sorted(used & WEAK_ALGORITHMS):
        yield Finding(
            "weak_algorithm",
            Level.WARNING,
            str(algorithm),
            f"The zone has keys of algorithm {algorithm}, which RFC 9904 advises against.",
            "Sign the zone with algorithm 13 (ECDSAP256SHA256).",
        )
