"""A zone on a primary: changed by UPDATE messages with a fence, and read back from the same server."""

from collections.abc import Callable, Coroutine
from functools import partial
from typing import Any

import dns.exception
import dns.update
import structlog

from sublet.db import Database
from sublet.dns.read_back import ReadBackFailed, read_back
from sublet.dns.types import Primary
from sublet.platform_domains import zone_state_store
from sublet.primaries.judgement import absent_owners, judge, without_wildcard
from sublet.primaries.plan import ImplausiblePlan, plan_changes
from sublet.primaries.primary import PrimaryFault, read_fence, send_update, takes_updates
from sublet.primaries.publishing import Batch, Result, settle_fence
from sublet.primaries.update import build_update
from sublet.processes.leased import under

TIMEOUT_SECONDS = 5.0
"""How long a primary may take for one message, and for being read back."""

OF_THE_BATCH = frozenset({"in_use", "refused", "failure", "not_understood"})
"""Causes that may lie in the content of a message; the others concern the whole zone."""

_ASK_AGAIN = frozenset({"no_answer", "key", "unsigned"})
"""Causes after which the message may have been applied, or which reading the fence tells apart."""

FindPrimary = Callable[[str], Primary]
log = structlog.get_logger()


class BatchRefused(Exception):  # noqa: N818 - the name server's answer, no fault of ours
    """A batch was refused whole, and nothing of it is in the zone, for this cause.

    An unsigned answer may say so too ("refused", by Knot): that is certain once a later update has replaced the fence.
    `was_sent` tells that a server refused it; otherwise it was not even sent.
    """

    def __init__(self, cause: str, detail: str, *, was_sent: bool = True) -> None:
        super().__init__(detail)
        self.cause = cause
        self.was_sent = was_sent


class BatchStale(Exception):  # noqa: N818 - as above
    """The zone has changed since the batch was begun, so nothing of it was applied: it has to be begun again."""


ReadBack = Callable[[], Coroutine[Any, Any, list[Result]]]
"""Reads back what is served after a change, and returns the outcome of each name.

Raises PrimaryFault where nothing can be read back.
"""


class PrimaryZone:
    """One zone on a primary; `find_primary` returns a primary with its key by its name.

    It remembers whether the fence is known for certain. When it isn't (at first, after another worker had the zone, after an
    uncertain answer), it asks the primary before the next update.
    """

    def __init__(self, db: Database, find_primary: FindPrimary) -> None:
        self._db = db
        self._find_primary = find_primary
        self._is_certain = False
        self._epoch: int | None = None

    async def change(self, batch: Batch) -> ReadBack:
        """Change the zone by a batch; return what reads it back. Other names may be sent before that is done.

        Raises:
            BatchRefused: nothing was applied; halves of the batch may be.
            BatchStale: nothing was applied; the same batch may be, begun again.
            PrimaryFault: nothing can be published in this zone now; whether the batch was applied is not known.
            Unavailable: the database can't be used.
        """
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
        # The next message expects the fence that this one has set.
        await self._db.write(
            under, batch.lease, settle_fence, batch.platform_domain_id, batch.fence, batch.next_fence
        )
        self._is_certain = True
        return partial(self._read_back, primary, batch)

    async def _prepare(self, batch: Batch) -> tuple[Primary, dns.update.UpdateMessage]:
        """Return the primary, whose fence is certain then, and the message to send."""
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
        """Forget a message of which nothing was sent, which can't be applied later."""
        await self._db.write(zone_state_store.delete_zone_update, batch.next_fence)

    async def _settle(self, primary: Primary, batch: Batch) -> None:
        """Derive from the fence which earlier messages were applied; if it has changed, the batch is stale."""
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

        A signed answer about the fence tells more than an unsigned failure, and most failures about keys are unsigned.
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
