"""Query the signalling names of a child's nameservers, which confirm its first DS records (RFC 9615)."""

import asyncio

import dns.exception
import dns.flags
import dns.message
import dns.name
import dns.rcode
import dns.rrset

from sublet.automatic_ds.model import Proof
from sublet.dns.names import is_at_or_below
from sublet.health.dns_client import DnsClient
from sublet.health.model import Target, find_rrset, name_of
from sublet.health.targets import Budget

QUERIES_MAX = 64
"""The maximum number of queries to the resolver for a name: two types at 13 nameservers, over UDP and TCP."""
_TYPES = ("CDS", "CDNSKEY")


class Signalling:
    """Queries signalling names at the resolver of the setting `health_resolver`, and trusts its validation."""

    def __init__(self, client: DnsClient, address: str, port: int) -> None:
        self._client = client
        self._address = address
        self._port = port

    async def look_up(self, target: Target) -> Proof:
        """Return the CDS and CDNSKEY records that all signalling names of a child have, or the problem with one of them.

        Nameservers at or below the child don't count, because the child itself would sign their signalling names.
        """
        hosts = [each for each in target.delegation.nameservers if not is_at_or_below(each, target.fqdn)]
        if not hosts:
            return Proof(
                problem="There are none, because all nameservers are at or below the name itself. Add a nameserver elsewhere."
            )
        budget = Budget(QUERIES_MAX)
        proofs = await asyncio.gather(*(self._look_up_one(target.fqdn, host, budget) for host in hosts))
        wrong = next((each for each in proofs if each.problem is not None), None)
        if wrong is not None:
            return wrong
        if any(_contents(each) != _contents(proofs[0]) for each in proofs):
            return Proof(
                problem="They have different CDS or CDNSKEY records. Publish the same records at each signalling name."
            )
        return proofs[0]

    async def _look_up_one(self, fqdn: str, host: str, budget: Budget) -> Proof:
        shown = f"_dsboot.{fqdn}._signal.{host}"
        try:
            name = name_of(shown)
        except dns.exception.DNSException:
            return Proof(
                problem=f"The signalling name for {host} would be too long. Set the DS records by hand."
            )
        found: dict[str, dns.rrset.RRset | None] = {}
        for rdtype in _TYPES:
            message = await self._ask(name, rdtype, budget)
            if message is None:
                return Proof(problem=f"{shown} can't be resolved. Publish the records there, signed.")
            if not message.flags & dns.flags.AD:
                return Proof(
                    problem=f"{shown} doesn't validate. Sign the zone of {host}, and have its DS records published."
                )
            found[rdtype] = find_rrset(message, name, rdtype)
        if not any(found.values()):
            return Proof(problem=f"{shown} has no CDS and no CDNSKEY records. Publish them there.")
        return Proof(found["CDS"], found["CDNSKEY"])

    async def _ask(self, name: dns.name.Name, rdtype: str, budget: Budget) -> dns.message.Message | None:
        """Return the resolver's answer, or None if it gave no usable answer."""
        for tcp in (False, True):
            reply = await self._client.ask(
                self._address,
                name,
                rdtype,
                budget,
                tcp=tcp,
                recursion=True,
                port=self._port,
                is_rate_limited=False,
            )
            if reply.message is not None and not reply.message.flags & dns.flags.TC:
                usable = reply.message.rcode() in (dns.rcode.NOERROR, dns.rcode.NXDOMAIN)
                return reply.message if usable else None
        return None


def _contents(proof: Proof) -> tuple[frozenset[object], frozenset[object]]:
    return frozenset(proof.cds or ()), frozenset(proof.cdnskey or ())
