"""Query the signalling names of a child's nameservers, which confirm its first DS records (RFC 9615)."""

import asyncio
from collections.abc import Sequence

import dns.exception
import dns.flags
import dns.name
import dns.rcode
import dns.rrset

from sublet.child_zones.model import Proof
from sublet.dns.names import is_at_or_below
from sublet.health.model import Target, find_rrset, name_of
from sublet.health.query_limits import Budget
from sublet.health.resolve import ForwardingResolver
from sublet.structs import replace

QUERIES_MAX = 64
"""The maximum number of queries to the resolver for a name: two types at 13 nameservers, over UDP and TCP."""
_TYPES = ("CDS", "CDNSKEY")


async def find_proof(target: Target, resolver: ForwardingResolver) -> Proof:
    """Return the CDS and CDNSKEY records that the signalling names of a child have, and their problem, if
    any.

    Nameservers at or below the child don't count, because the child itself would sign their signalling names.
    The validation of the resolver is trusted.
    """
    hosts = [each for each in target.delegation.nameservers if not is_at_or_below(each, target.fqdn)]
    if not hosts:
        return Proof(
            problem="There are none, because all nameservers are at or "
            "below the name itself. Add a nameserver "
            "elsewhere."
        )
    budget = Budget(QUERIES_MAX)
    proofs = await asyncio.gather(*(_look_up(target.fqdn, host, resolver, budget) for host in hosts))
    return join_proofs(proofs)


def join_proofs(proofs: Sequence[Proof]) -> Proof:
    """Return one proof from those of the signalling names: the valid records, and the problem with the
    others.
    """
    valid = [each for each in proofs if each.problem is None]
    if any(_contents(each) != _contents(valid[0]) for each in valid):
        return Proof(
            problem="They have different CDS or CDNSKEY records. Publish the same records at each signalling "
            "name.",
            contradicts=True,
        )
    wrong = next((each for each in proofs if each.problem is not None), None)
    if wrong is None or not valid:
        return proofs[0] if wrong is None else wrong
    return replace(valid[0], problem=wrong.problem)


async def _look_up(fqdn: str, host: str, resolver: ForwardingResolver, budget: Budget) -> Proof:
    shown = f"_dsboot.{fqdn}._signal.{host}"
    try:
        name = name_of(shown)
    except dns.exception.DNSException:
        return Proof(problem=f"The signalling name for {host} would be too long. Set the DS records by hand.")
    found: dict[str, dns.rrset.RRset | None] = {}
    for rdtype in _TYPES:
        message = (await resolver.ask(name, rdtype, budget)).message
        if message is None or message.rcode() not in (dns.rcode.NOERROR, dns.rcode.NXDOMAIN):
            return Proof(problem=f"{shown} can't be resolved. Publish the records there, signed.")
        if not message.flags & dns.flags.AD:
            return Proof(
                problem=f"{shown} doesn't validate. Sign the zone of {host}, "
                "and have its DS records published."
            )
        found[rdtype] = find_rrset(message, name, rdtype)
    if not any(found.values()):
        return Proof(problem=f"{shown} has no CDS and no CDNSKEY records. Publish them there.")
    return Proof(found["CDS"], found["CDNSKEY"])


def _contents(proof: Proof) -> tuple[frozenset[object], frozenset[object]]:
    return frozenset(proof.cds or ()), frozenset(proof.cdnskey or ())
