"""Change a zone on a primary by UPDATE messages with a fence, and read the changes back
from the same server.
"""

import asyncio
from collections.abc import Callable, Coroutine, Mapping
from functools import partial
from typing import Any

import dns.exception
import dns.update
import structlog

from sublet.db import Database
from sublet.dns.difference import matches
from sublet.dns.read_back import ReadBackFailed, read_back
from sublet.dns.types import Primary, Record
from sublet.platform_domains import zone_store
from sublet.primaries.primary import (
    NOT_APPLIED,
    PARTIAL,
    Fence,
    PrimaryFault,
    accepts_updates,
    raise_serial,
    read_fence,
    send_update,
)
from sublet.primaries.publisher_transactions import Batch, Item, Result, settle_fence
from sublet.primaries.update import (
    ImplausiblePlan,
    ZoneChanges,
    build_aliases,
    build_update,
    plan_changes,
    split_changes,
)
from sublet.processes.leases import under_lease
from sublet.processes.model import Lease
from sublet.structs import replace

TIMEOUT_SECONDS = 5.0
"""The timeout of a message to a primary, and of reading back a batch."""

REBUILT_SERIAL_STEP = 2**20
"""Added to the serial of a rebuilt zone: more than the number of changes that a restored copy plausibly
lacks.
"""

_BATCH_CAUSES = frozenset({"in_use", "refused", "failure", "not_understood"})
"""Causes that may lie in the content of a message. All others concern the whole zone."""

_LOST_CAUSES = frozenset({"unreachable", "no_answer"})
"""Causes after which the same message may succeed."""

_READ_FENCE_AFTER = frozenset({"no_answer", "key", "unsigned", "not_understood"})
"""Causes after which the fence is read, because the message may have been applied, or the answer with the
fence shows the real cause.
"""

FindPrimary = Callable[[str], Primary]
log = structlog.get_logger()


class BatchRefused(Exception):  # noqa: N818 - the name server's answer, not an error of ours
    """A batch was refused because of `cause`, and the server applied no part of it.

    Knot doesn't sign a refusal, and BIND no FORMERR. After an unsigned answer the server may still apply the
    batch, until a later update has changed the fence. `was_sent` is False if the batch was refused before it
    was sent.
    """

    def __init__(self, cause: str, detail: str, *, was_sent: bool = True) -> None:
        super().__init__(detail)
        self.cause = cause
        self.was_sent = was_sent


class BatchStale(Exception):  # noqa: N818 - the name server's answer, not an error of ours
    """The fence has changed since the batch was begun, so the server applied no part of the batch.

    Begin it again.
    """


ReadBack = Callable[[], Coroutine[Any, Any, list[Result]]]
"""Reads back the changed names, and returns their results. Raises `PrimaryFault` if the server doesn't
answer.
"""


async def store_fence(
    db: Database,
    primary: Primary,
    zone: str,
    lease: Lease | None,
    platform_domain_id: int,
    expected: str | None,
    found: Fence,
) -> str:
    """Store the fence that was read from a zone, and return its meaning (see `settle_fence`).

    A rebuilt zone gets a much newer serial at once. Otherwise the next changes could give the zone a serial
    that a secondary has stored with other records, and the secondary would apply later changes to these. If
    the primary refuses the new serial, the log says so.
    """
    meaning = await db.write(under_lease, lease, settle_fence, platform_domain_id, expected, found.value)
    if meaning == "rebuilt":
        log.warning("zone_found_rebuilt", zone=zone, fence=found.value)
        await raise_serial_best_effort(primary, zone, (found.serial + REBUILT_SERIAL_STEP) % 2**32)
    return meaning


async def raise_serial_best_effort(primary: Primary, zone: str, serial: int) -> None:
    """Call `raise_serial`, and log a raised serial or the failure."""
    try:
        is_raised = await raise_serial(primary, zone, serial, timeout_seconds=TIMEOUT_SECONDS)
    except PrimaryFault as fault:
        log.warning("zone_serial_not_raised", zone=zone, serial=serial, cause=fault.cause, detail=str(fault))
    else:
        if is_raised:
            log.info("zone_serial_raised", zone=zone, serial=serial)


class PrimaryZone:
    """A zone on a primary. `find_primary` returns a primary with our key by the primary's name.

    The fence is uncertain at first, after another worker has published the zone, and after an uncertain
    answer. An uncertain fence is read before the next update.
    """

    def __init__(self, db: Database, find_primary: FindPrimary) -> None:
        self._db = db
        self._find_primary = find_primary
        self._is_fence_certain = False
        self._epoch: int | None = None

    async def change(self, batch: Batch) -> ReadBack:
        """Change the zone by a batch, and return the function that reads the batch back.

        The next batch may be sent before the read-back.

        Raises:
            BatchRefused: the server applied nothing. Smaller batches may succeed.
            BatchStale: the server applied nothing. Begin the batch again.
            PrimaryFault: the server accepts no changes of the zone now. It may have applied the batch.
            Unavailable: the database can't be used.
        """
        try:
            primary, (message, *others) = await self._prepare(batch)
        except (PrimaryFault, BatchRefused, BatchStale):
            await self._delete_update(batch)
            raise
        self._is_fence_certain = False
        try:
            await send_update(primary, message, timeout_seconds=TIMEOUT_SECONDS)
        except dns.exception.TooBig as error:
            self._is_fence_certain = True
            await self._delete_update(batch)
            raise BatchRefused("not_understood", "the message would be too long", was_sent=False) from error
        except PrimaryFault as fault:
            if fault.cause == "unreachable":
                await self._delete_update(batch)
            await self._raise_unless_applied(primary, batch, fault)
        later_fault = None
        try:
            for each in others:
                await send_update(primary, each, timeout_seconds=TIMEOUT_SECONDS)
        except PrimaryFault as fault:  # the read-back finds what is missing
            later_fault = fault
        # The next message requires the fence that these messages have set.
        await self._db.write(
            under_lease, batch.lease, settle_fence, batch.platform_domain_id, batch.fence, batch.next_fence
        )
        self._is_fence_certain = True
        return partial(self._read_back, primary, batch, later_fault)

    async def _prepare(self, batch: Batch) -> tuple[Primary, list[dns.update.UpdateMessage]]:
        """Return the primary, and the messages to send one after the other.

        First read the fence from the server if it may have changed since our last update.
        """
        primary = self._find_primary(batch.primary)
        epoch = None if batch.lease is None else batch.lease.epoch
        if not self._is_fence_certain or epoch != self._epoch:
            self._is_fence_certain, self._epoch = False, epoch
            await self._settle(primary, batch)
        try:
            # In a thread, because the messages of many records take seconds.
            return primary, await asyncio.to_thread(build_messages, batch)
        except (ImplausiblePlan, dns.exception.DNSException, ValueError) as error:
            log.exception("zone_change_refused", zone=batch.zone)
            raise BatchRefused("refused", str(error), was_sent=False) from error

    async def _delete_update(self, batch: Batch) -> None:
        await self._db.write(zone_store.delete_zone_update, batch.next_fence)

    async def _settle(self, primary: Primary, batch: Batch) -> None:
        """Read the fence and store which earlier messages were applied.

        Raise `BatchStale` if the fence has changed.
        """
        found = await read_fence(primary, batch.zone, timeout_seconds=TIMEOUT_SECONDS)
        meaning = await self._store_fence(primary, batch, found)
        self._is_fence_certain = True
        if meaning != "same":
            raise BatchStale

    async def _store_fence(self, primary: Primary, batch: Batch, found: Fence) -> str:
        return await store_fence(
            self._db, primary, batch.zone, batch.lease, batch.platform_domain_id, batch.fence, found
        )

    async def _raise_unless_applied(self, primary: Primary, batch: Batch, fault: PrimaryFault) -> None:
        """Return if the server applied the message in spite of the fault. Otherwise raise the real fault.

        Most answers about wrong keys are unsigned, so the signed answer with the fence is more reliable.
        """
        if not fault.certain and fault.cause not in _READ_FENCE_AFTER:
            raise fault
        try:
            found = await read_fence(primary, batch.zone, timeout_seconds=TIMEOUT_SECONDS)
        except PrimaryFault as reading:
            raise (fault if fault.certain or fault.cause == "no_answer" else reading) from None
        if fault.cause == "unsigned":
            raise fault
        if found.value == batch.next_fence:
            return
        await self._store_fence(primary, batch, found)
        self._is_fence_certain = fault.certain
        if found.value != batch.fence:
            raise BatchStale from fault
        # The key is valid, because the fence was read with it. Knot gives the same answer for a key that may
        # not send this update.
        if fault.cause == "key":
            fault = PrimaryFault(
                "refused", f"{primary.name} does not allow this update with the key {primary.key.name}"
            )
        elif not fault.certain and fault.cause != "not_understood":
            raise fault
        if fault.cause in _BATCH_CAUSES and batch.items:
            raise BatchRefused(fault.cause, str(fault)) from fault
        if fault.cause == "refused" and not await accepts_updates(
            primary, batch.zone, timeout_seconds=TIMEOUT_SECONDS
        ):
            raise PrimaryFault("no_updates", f"{primary.name} answers REFUSED to any update of {batch.zone}")
        raise fault

    async def _read_back(
        self, primary: Primary, batch: Batch, later_fault: PrimaryFault | None
    ) -> list[Result]:
        """Return the results. `later_fault` is the fault of a message after the first."""
        try:
            served = await read_back(
                (primary.address, primary.port),
                batch.zone,
                {item.fqdn: item.desired for item in batch.items},
                timeout_seconds=TIMEOUT_SECONDS,
                empty_owners=sorted({each for item in batch.items for each in _owners_expected_empty(item)}),
            )
            after = await read_fence(primary, batch.zone, timeout_seconds=TIMEOUT_SECONDS)
        except ReadBackFailed as error:
            raise PrimaryFault("read_back", str(error)) from error
        results = [judge(item, served, after.serial) for item in batch.items]
        if later_fault is None or later_fault.cause in _LOST_CAUSES:
            return results
        log.warning("zone_change_refused_in_part", zone=batch.zone, detail=str(later_fault))
        # The server accepted the key for the first message. Knot doesn't sign a refusal, which looks like a
        # wrong key.
        cause = later_fault.cause if later_fault.cause in _BATCH_CAUSES else "refused"
        return [
            each if each.error is None else replace(each, error=NOT_APPLIED, cause=cause) for each in results
        ]


def build_messages(batch: Batch) -> list[dns.update.UpdateMessage]:
    """Return the messages that apply a batch. The first one sets the fence that the others require.

    The first one also requires that all new owners are unused, and if there are several parts, it changes
    only the fence. So the server applies none of the parts, or each new owner is ours.

    Only the changes of a single name are split. Several names that are too long for one message are halved by
    the publisher, so that one message changes all records of a name. Raises `ImplausiblePlan`.
    """
    changes = plan_changes(
        batch.zone,
        (owner for item in batch.items for owner in item.owners - item.new_owners),
        (record for item in batch.items for record in item.desired),
        with_records=(owner for item in batch.items for owner in item.owners_with_records),
    )
    unused = {owner for item in batch.items for owner in item.new_owners}
    parts = split_changes(changes) if len(batch.items) == 1 else [changes]
    if len(parts) > 1:
        parts.insert(0, ZoneChanges(batch.zone, (), ()))
    messages: list[dns.update.UpdateMessage] = []
    for part in parts:
        message = build_update(
            part,
            fence=batch.next_fence if messages else batch.fence,
            next_fence=batch.next_fence,
            unused=() if messages else unused,
        )
        aliases = build_aliases(part, fence=batch.next_fence)
        messages += [message] if aliases is None else [message, aliases]
    return messages


def _owners_expected_empty(item: Item) -> frozenset[str]:
    """Return the owners that should have no records, and that have or may have records of ours."""
    return item.owners - {record.owner for record in item.desired}


def judge(item: Item, served: Mapping[str, tuple[Record, ...]], serial: int) -> Result:
    """Return a success if the server serves exactly the desired records and no older records; otherwise
    return a failure.
    """
    # The name itself may be an owner without records, and `served` has the records of its other owners under
    # it.
    empty = _owners_expected_empty(item)
    orphaned = [owner for owner in empty if any(record.owner == owner for record in served[owner])]
    if orphaned or not matches(item.desired, served[item.fqdn]):
        return Result(item, error=PARTIAL, cause="partial")
    return Result(item, serial=serial)
