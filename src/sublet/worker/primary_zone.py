"""A zone on a primary server of one's own: changed by fenced UPDATE messages, read back from the same server."""

from collections.abc import Callable
from functools import partial

import dns.exception
import dns.update
import structlog

from sublet.db import Database
from sublet.dns.plan import ImplausiblePlan, plan_changes
from sublet.dns.primary import PrimaryFault, read_fence, send_update, takes_updates
from sublet.dns.read_back import ReadBackFailed, read_back
from sublet.dns.types import Primary
from sublet.dns.update import build_update
from sublet.platform_domains import zone_state_store
from sublet.subdomains.publishing import Batch, Result, settle_fence
from sublet.worker.judgement import absent_owners, judge, without_wildcard
from sublet.worker.leased import under
from sublet.worker.zones import BatchRefused, BatchStale, ReadBack

TIMEOUT_SECONDS = 5.0
"""How long a primary may take for one message, and for being read back."""

OF_THE_BATCH = frozenset({"in_use", "refused", "failure", "not_understood"})
"""Causes that may lie in what a message carries; the others concern the zone as a whole."""

_ASK_AGAIN = frozenset({"no_answer", "key", "unsigned"})
"""Causes of which the message may have been applied, or that a look at the fence tells apart."""

FindPrimary = Callable[[str], Primary]
log = structlog.get_logger()


class PrimaryZone:
    """One zone on a primary; `find_primary` gives the primary of a name, with its key.

    It knows whether it is certain what stands at the fence: at first, after another worker had the zone, and after whatever was not
    told for certain, it asks.
    """

    def __init__(self, db: Database, find_primary: FindPrimary) -> None:
        self._db = db
        self._find_primary = find_primary
        self._is_certain = False
        self._epoch: int | None = None

    async def change(self, batch: Batch) -> ReadBack:
        """As `Zone.change`."""
        try:
            primary, message = await self._prepare(batch)
        except (PrimaryFault, BatchRefused, BatchStale):
            await self._forget(batch)
            raise
        self._is_certain = False
        try:
            await send_update(primary, message, timeout_seconds=TIMEOUT_SECONDS)
        except dns.exception.TooBig as error:
            self._is_certain = True
            await self._forget(batch)
            raise BatchRefused("not_understood", "the message would be too long", was_sent=False) from error
        except PrimaryFault as fault:
            if fault.cause == "unreachable":
                await self._forget(batch)
            await self._understand(primary, batch, fault)
        # The next message is begun with what this one has put at the fence.
        await self._db.write(
            under, batch.lease, settle_fence, batch.platform_domain_id, batch.fence, batch.next_fence
        )
        self._is_certain = True
        return partial(self._read_back, primary, batch)

    async def _prepare(self, batch: Batch) -> tuple[Primary, dns.update.UpdateMessage]:
        """Return the primary, about whose fence there is no doubt any more, and the message to send."""
        primary = self._find_primary(batch.primary)
        epoch = None if batch.lease is None else batch.lease.epoch
        if not self._is_certain or epoch != self._epoch:
            self._is_certain, self._epoch = False, epoch
            await self._settle(primary, batch)
        try:
            return primary, build_update(
                plan_changes(
                    batch.zone,
                    (owner for item in batch.items for owner in item.owners),
                    (record for item in batch.items for record in item.desired),
                ),
                fence=batch.fence,
                next_fence=batch.next_fence,
                unused=(owner for item in batch.items for owner in item.new_owners),
            )
        except (ImplausiblePlan, dns.exception.DNSException, ValueError) as error:
            log.exception("zone_change_refused", zone=batch.zone)
            raise BatchRefused("refused", str(error), was_sent=False) from error

    async def _forget(self, batch: Batch) -> None:
        """Forget a message of which nothing was sent, so that it can't be applied some day."""
        await self._db.write(zone_state_store.delete_zone_update, batch.next_fence)

    async def _settle(self, primary: Primary, batch: Batch) -> None:
        """Learn from the fence what became of earlier messages; whoever has moved it, the batch is stale then."""
        found = await read_fence(primary, batch.zone, timeout_seconds=TIMEOUT_SECONDS)
        meaning = await self._db.write(
            under, batch.lease, settle_fence, batch.platform_domain_id, batch.fence, found.value
        )
        self._is_certain = True
        if meaning == "rebuilt":
            log.warning("zone_found_rebuilt", zone=batch.zone, fence=found.value)
        if meaning != "same":
            raise BatchStale

    async def _understand(self, primary: Primary, batch: Batch, fault: PrimaryFault) -> None:
        """Return if the message was applied after all; else raise what its failure means.

        A signed look at the fence tells more than an answer that nobody vouches for, which most answers about keys are.
        """
        if not fault.certain and fault.cause not in _ASK_AGAIN:
            raise fault
        try:
            found = await read_fence(primary, batch.zone, timeout_seconds=TIMEOUT_SECONDS)
        except PrimaryFault as told:
            raise (fault if fault.certain or fault.cause == "no_answer" else told) from None
        if fault.cause == "unsigned":
            raise fault
        if found.value == batch.next_fence:
            return
        await self._db.write(
            under, batch.lease, settle_fence, batch.platform_domain_id, batch.fence, found.value
        )
        self._is_certain = fault.certain
        if found.value != batch.fence:
            raise BatchStale from fault
        if fault.cause == "key":  # the fence was read with it: so Knot says that the key may not do this
            fault = PrimaryFault("refused", f"{primary.name} does not allow it to the key {primary.key.name}")
        elif not fault.certain:
            raise fault
        if fault.cause in OF_THE_BATCH and batch.items:
            raise BatchRefused(fault.cause, str(fault)) from fault
        if fault.cause == "refused" and not await takes_updates(
            primary, batch.zone, timeout_seconds=TIMEOUT_SECONDS
        ):
            raise PrimaryFault("no_updates", f"{primary.name} answers REFUSED to any update of {batch.zone}")
        raise fault

    async def _read_back(self, primary: Primary, batch: Batch) -> list[Result]:
        try:
            served = await read_back(
                (primary.address, primary.port),
                [item.fqdn for item in batch.items],
                timeout_seconds=TIMEOUT_SECONDS,
                also_absent=absent_owners(batch.zone, batch.items),
            )
            after = await read_fence(primary, batch.zone, timeout_seconds=TIMEOUT_SECONDS)
        except ReadBackFailed as error:
            raise PrimaryFault("read_back", str(error)) from error
        served = without_wildcard(batch.zone, batch.items, served)
        return [judge(item, served, after.serial) for item in batch.items]
