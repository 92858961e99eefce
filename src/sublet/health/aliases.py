"""Check the aliases of a name with records: whether the host of each CNAME exists.

A CNAME to a host that no longer exists is often taken over: another customer of its provider takes the
host, and answers for the name.
"""

from collections.abc import Sequence
from datetime import datetime

from sublet.dns.records import owner_of
from sublet.health.model import DEGRADED, HEALTHY, UNKNOWN, Finding, Level, Report
from sublet.health.query_limits import Budget
from sublet.health.resolve import ALIASES_MAX, Resolver, is_special_use
from sublet.subdomains.lifecycle import is_in_dns
from sublet.subdomains.model import Subdomain

Alias = tuple[str, str]
"""The owner of a CNAME record, and the host that it points to, without the final dots."""
DANGLING = "dangling_alias"


def aliases_of(subdomain: Subdomain) -> tuple[Alias, ...]:
    """Return the aliases of a name that are in the DNS.

    Aliases with an underscore in the owner are left out. They stand for texts, such as those of ACME, whose
    host often exists only for minutes.
    """
    if not is_in_dns(subdomain):
        return ()
    return tuple(
        (owner_of(each.name, subdomain.fqdn), each.values[0].removesuffix("."))
        for each in subdomain.records
        if each.type == "CNAME" and not any(label.startswith("_") for label in each.name.split("."))
    )


async def check_aliases(aliases: Sequence[Alias], resolver: Resolver, now: datetime) -> Report:
    """Ask a resolver for the host of each alias, and report those that don't exist.

    A host that has no address, but other records, exists. The state is `unknown` if no host is missing, and
    the resolver failed for one.
    """
    budget = Budget()
    missing = {}
    for host in dict.fromkeys(host for _, host in aliases):
        missing[host] = await _find_missing(host, resolver, budget)
    found = tuple(_finding(owner, host, end) for owner, host in aliases if (end := missing[host]))
    if found:
        return Report(DEGRADED, found, now)
    return Report(UNKNOWN if None in missing.values() else HEALTHY, (), now)


async def _find_missing(host: str, resolver: Resolver, budget: Budget) -> str | None:
    """Return the host, or the end of its chain of aliases, if it doesn't exist; an empty text if it does;
    None if that is unknown.
    """
    for _ in range(ALIASES_MAX):
        if is_special_use(host):
            return host
        found = await resolver.addresses(host, budget)
        if found.missing_in is not None:
            return host
        if found.failure == "unknown":
            return None
        if found.failure is None or found.alias is None:
            return ""
        host = found.alias
    return None


def _finding(owner: str, host: str, missing: str) -> Finding:
    through = "" if host == missing else f" leads to {missing}, which"
    return Finding(
        DANGLING,
        Level.WARNING,
        owner,
        f"{owner} points to {host}, which{through} doesn't exist. Another person could get {missing}, "
        f"and answer for {owner}.",
        "Remove the CNAME record, or point it to a host that you use.",
    )
