"""Transfer a zone from its primary and compare the zone with the registry, without changing either.

The worker runs this module as a child process, because a large zone takes a minute of processor time.
"""

import asyncio
import os
import sys
from contextlib import suppress
from datetime import datetime

import msgspec

from sublet.db import Database, Tx, open_database, utc_now
from sublet.dns.names import ancestors
from sublet.dns.types import Primary, Record
from sublet.errors import Conflict
from sublet.platform_domains import store as platform_domain_store
from sublet.platform_domains import zone_store
from sublet.platform_domains.model import PlatformDomain
from sublet.primaries.check_zone import Repairs, ZoneCheck, check_zone
from sublet.primaries.primary import PrimaryFault
from sublet.primaries.transfer import ZoneTransfer, transfer_zone
from sublet.secret import restore_secret_from_parent

TRANSFER_SECONDS = 300.0
MOVED = "moved"
"""The cause of a `Failure` that reports a `Conflict`."""


class CheckRequest(msgspec.Struct, frozen=True):
    """A zone to check: its platform domain in a database, its primary, and the start of the check by the
    worker's clock.
    """

    database_url: str
    platform_domain_id: int
    primary: Primary
    began_at: datetime


class Outcome(msgspec.Struct, frozen=True, tag=True):
    """The result of a check, for the repair.

    `serial` is the zone's serial, `rebuilt_at` is `ZoneState.rebuilt_at` at the start of the check.
    `foreign_new` has the foreign records and the addresses of the zone's own name servers that aren't stored
    yet, `foreign_gone` has the stored records that have left the zone.
    """

    serial: int
    rebuilt_at: datetime | None
    repairs: Repairs
    foreign_new: tuple[Record, ...]
    foreign_gone: tuple[Record, ...]


class Failure(msgspec.Struct, frozen=True, tag=True):
    """Why the check failed: `MOVED` or a cause of `primaries.primary.CAUSES`, and
    details for the operator.
    """

    cause: str
    detail: str


async def check_on_primary(
    db: Database,
    platform_domain_id: int,
    primary: Primary,
    *,
    began_at: datetime | None = None,
) -> tuple[ZoneCheck, Outcome]:
    """Transfer a zone, and compare it with the registry.

    Return the result for the operator, and the part that `repair` needs.

    Raises, in this order:
        Conflict: the zone has moved to another server, or its platform domain was removed.
        PrimaryFault: the transfer failed (`transfer_zone`).
        Conflict: the zone moved, or its platform domain was removed, during the transfer.
    """
    now, state = await db.read(lambda tx: (tx.now, zone_store.find_zone_state(tx, platform_domain_id)))
    platform_domain = await db.read(_find_on_primary, platform_domain_id, primary.name)
    transfer = await transfer_zone(primary, platform_domain.domain, utc_now, timeout_seconds=TRANSFER_SECONDS)
    check, new, gone = await db.read(
        _compare,
        platform_domain_id,
        primary.name,
        transfer,
        began_at or now,
        rebuilt=state.rebuilt_at is not None,
    )
    return check, Outcome(transfer.serial, state.rebuilt_at, check.repairs, new, gone)


def _find_on_primary(tx: Tx, platform_domain_id: int, primary: str) -> PlatformDomain:
    platform_domain = platform_domain_store.find_platform_domain(tx, platform_domain_id)
    if platform_domain is None or platform_domain.primary != primary:
        raise Conflict("The zone has moved to another server. Check it again.")
    return platform_domain


def _compare(
    tx: Tx,
    platform_domain_id: int,
    primary: str,
    transfer: ZoneTransfer,
    began_at: datetime,
    *,
    rebuilt: bool,
) -> tuple[ZoneCheck, tuple[Record, ...], tuple[Record, ...]]:
    platform_domain = _find_on_primary(tx, platform_domain_id, primary)
    check = check_zone(
        tx, platform_domain, transfer.take_records(), transfer_began_at=began_at, rebuilt=rebuilt
    )
    # The addresses of the zone's own name servers are stored too, so that their names can't be registered.
    foreign = {*check.differences.foreign, *check.differences.own_servers}
    apex = platform_domain.domain  # `replace_apex_dnskeys` stores the records at the apex
    stored = {each for each in zone_store.list_zone_records(tx, platform_domain_id) if each.owner != apex}
    waiting = set(check.waiting)
    # The check skips waiting names, so stored records at or below them may still be in the zone.
    gone = {
        record for record in stored - foreign if waiting.isdisjoint((record.owner, *ancestors(record.owner)))
    }
    return check, tuple(sorted(foreign - stored)), tuple(sorted(gone))


async def _run(request: CheckRequest) -> Outcome | Failure:
    # This process only reads, so the check for lost writes isn't needed.
    db = open_database(request.database_url, may_lose_writes=True)
    try:
        _, outcome = await check_on_primary(
            db, request.platform_domain_id, request.primary, began_at=request.began_at
        )
    except Conflict as conflict:
        return Failure(MOVED, str(conflict))
    except PrimaryFault as fault:
        return Failure(fault.cause, str(fault))
    finally:
        await db.close()
    return outcome


def main() -> None:
    """Check the zone of the `CheckRequest` on stdin, and write the `Outcome` or `Failure` to stdout."""
    with suppress(OSError):  # a system call filter may forbid it
        os.nice(10)  # API requests come first
    request = msgspec.json.decode(
        sys.stdin.buffer.read(), type=CheckRequest, dec_hook=restore_secret_from_parent
    )
    sys.stdout.buffer.write(msgspec.json.encode(asyncio.run(_run(request))))


if __name__ == "__main__":
    main()
