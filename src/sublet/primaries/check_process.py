"""A whole check of a zone on a primary: transferred, then held against the registry. Nothing is changed.

As a program (`python -m sublet.primaries.check_process`) it reads a `Task` from stdin and writes a `Report` to stdout. The worker runs it in a
process of its own, because a large zone takes a minute of a processor.
"""

import asyncio
import os
import sys
from contextlib import suppress
from dataclasses import dataclass
from datetime import datetime

import msgspec

from sublet.db import Database, Tx, open_database, utc_now
from sublet.dns.names import ancestors
from sublet.dns.types import Primary, Record
from sublet.errors import Conflict
from sublet.platform_domains import store as platform_domain_store
from sublet.platform_domains import zone_state_store, zone_store
from sublet.primaries.check_zone import Repairs, ZoneCheck, check_zone
from sublet.primaries.primary import PrimaryFault
from sublet.primaries.transfer import ZoneTransfer, transfer_zone
from sublet.secret import hide_from_parent

TRANSFER_SECONDS = 300.0


@dataclass(frozen=True, slots=True)
class Task:
    """Which zone to check: of the platform domain in this database, on this primary; at which instant by the worker's clock."""

    database_url: str
    platform_domain_id: int
    primary: Primary
    began_at: datetime


@dataclass(frozen=True, slots=True)
class Outcome:
    """What a check found, for the repair.

    The zone's serial; what was known of a rebuilding as it began; the foreign records that are not noted yet, and those noted that
    are gone.
    """

    serial: int
    rebuilt_at: datetime | None
    repairs: Repairs
    foreign_new: tuple[Record, ...]
    foreign_gone: tuple[Record, ...]


@dataclass(frozen=True, slots=True)
class Failure:
    """Why there was no check: one of `primaries.primary.CAUSES`, and more for the operator."""

    cause: str
    detail: str


async def check_on_primary(
    db: Database,
    platform_domain_id: int,
    primary: Primary,
    *,
    began_at: datetime | None = None,
) -> tuple[ZoneCheck, Outcome]:
    """Transfer a zone and compare it.

    Raises:
        PrimaryFault: as `transfer_zone`.
        Conflict: there is no such zone on a primary any more.
    """
    now, state = await db.read(lambda tx: (tx.now, zone_state_store.find_zone_state(tx, platform_domain_id)))
    domain = await db.read(_domain_on, platform_domain_id, primary.name)
    transfer = await transfer_zone(primary, domain, utc_now, timeout_seconds=TRANSFER_SECONDS)
    check, new, gone = await db.read(
        _compare, platform_domain_id, transfer, began_at or now, rebuilt=state.rebuilt_at is not None
    )
    return check, Outcome(transfer.serial, state.rebuilt_at, check.repairs, new, gone)


def _domain_on(tx: Tx, platform_domain_id: int, primary: str) -> str:
    platform_domain = platform_domain_store.find_platform_domain(tx, platform_domain_id)
    if platform_domain is None or platform_domain.primary != primary:
        raise Conflict("The zone stands on another server by now. Check it again.")
    return platform_domain.domain


def _compare(
    tx: Tx, platform_domain_id: int, transfer: ZoneTransfer, began_at: datetime, *, rebuilt: bool
) -> tuple[ZoneCheck, tuple[Record, ...], tuple[Record, ...]]:
    platform_domain = platform_domain_store.find_platform_domain(tx, platform_domain_id)
    assert platform_domain is not None  # noqa: S101 - asked a moment ago, and none is ever removed
    check = check_zone(
        tx, platform_domain, transfer.take_records(), transfer_began_at=began_at, rebuilt=rebuilt
    )
    foreign = set(check.differences.foreign)
    apex = platform_domain.domain  # what is noted of it is no name that could be registered
    noted = {each for each in zone_store.list_zone_records(tx, platform_domain_id) if each.owner != apex}
    waiting = set(check.waiting)
    # At a name that waits nothing was judged, so of what was noted there nothing is known to be gone.
    gone = {
        record for record in noted - foreign if waiting.isdisjoint((record.owner, *ancestors(record.owner)))
    }
    return check, tuple(sorted(foreign - noted)), tuple(sorted(gone))


async def _run(task: Task) -> Outcome | Failure:
    # It only reads; whether writes may be lost was asked by the service that started it.
    db = open_database(task.database_url, may_lose_writes=True)
    try:
        _, outcome = await check_on_primary(db, task.platform_domain_id, task.primary, began_at=task.began_at)
    except PrimaryFault as fault:
        return Failure(fault.cause, str(fault))
    finally:
        await db.close()
    return outcome


def main() -> None:
    """Check the zone of the `Task` on stdin, and write the `Report` to stdout."""
    with suppress(OSError):  # a filter of system calls may forbid it
        os.nice(10)  # a large zone takes a minute of a processor, which the API needs
    task = msgspec.json.decode(sys.stdin.buffer.read(), type=Task, dec_hook=hide_from_parent)
    found = asyncio.run(_run(task))
    kind = "failure" if isinstance(found, Failure) else "outcome"
    sys.stdout.buffer.write(msgspec.json.encode({kind: found}))


@dataclass(frozen=True, slots=True)
class Report:
    """The program's output: either of the two."""

    outcome: Outcome | None = None
    failure: Failure | None = None


if __name__ == "__main__":
    main()
