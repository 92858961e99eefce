"""Have what a check of a zone on a primary found repaired, a bounded number of rows at a time."""

from collections.abc import Iterator, Sequence
from typing import TypeVar

from sublet.audit import Actor
from sublet.db import Database
from sublet.primaries.check_process import Outcome
from sublet.primaries.repair_zone import (
    STEP_MAX,
    begin_repair,
    end_repair,
    note_foreign,
    reclaim,
    republish,
)
from sublet.processes.leased import under
from sublet.processes.model import Lease

T = TypeVar("T")


async def repair(
    db: Database,
    actor: Actor,
    platform_domain_id: int,
    primary: str,
    found: Outcome,
    *,
    force: bool = False,
    lease: Lease | None = None,
) -> str | None:
    """Store what was found and have it repaired; return why nothing is taken out, where the brake stops that.

    Whoever dies in between leaves a zone that is checked anew. `lease` is the worker's; the operator needs none.

    Raises:
        Conflict: the zone stands on another server by now.
        LeaseLost: another worker keeps it by now.
    """
    repairs = found.repairs
    reason = await db.write(
        under, lease, begin_repair, actor, platform_domain_id, primary, repairs, force=force
    )
    for ids in _steps(repairs.wrong_ids):
        await db.write(under, lease, republish, platform_domain_id, ids)
    if reason is None:
        for leftovers in _steps((*repairs.leftovers, *repairs.reclaimed)):
            await db.write(under, lease, reclaim, platform_domain_id, leftovers)
    for gone in _steps(found.foreign_gone):
        await db.write(under, lease, note_foreign, platform_domain_id, primary, gone, ())
    for new in _steps(found.foreign_new):
        await db.write(under, lease, note_foreign, platform_domain_id, primary, (), new)
    serial = found.serial if repairs.is_settled else None
    await db.write(under, lease, end_repair, platform_domain_id, serial, found.rebuilt_at)
    return reason


def _steps(things: Sequence[T]) -> Iterator[Sequence[T]]:
    for start in range(0, len(things), STEP_MAX):
        yield things[start : start + STEP_MAX]
