"""A zone on the built-in name server: changed in the database, read back over the network."""

from collections.abc import Mapping, Sequence
from functools import partial

import structlog

from sublet.db import Database
from sublet.dns.read_back import ReadBackFailed, read_back
from sublet.dns.types import Record
from sublet.errors import Unavailable
from sublet.processes.model import LeaseLost
from sublet.subdomains.change_zone import ZoneChanged, change_zone
from sublet.subdomains.publishing import Batch, Result
from sublet.worker.judgement import IN_USE, SENTENCES, absent_owners, judge, without_wildcard
from sublet.worker.leased import under
from sublet.worker.zones import BatchRefused, ReadBack

READ_BACK_TIMEOUT_SECONDS = 5.0

log = structlog.get_logger()


class BuiltInZone:
    """The zones of the built-in name server, of which any number run, at `addresses`.

    Each of them reads the database at each query and keeps nothing, so what one serves after the commit all serve, and one is
    read back from: the one that answered last, or the next that answers (docs/decisions/0012-one-read-back.md).
    """

    def __init__(self, db: Database, addresses: Sequence[tuple[str, int]]) -> None:
        self._db = db
        self.addresses = addresses
        self._answered_last = 0

    async def change(self, batch: Batch) -> ReadBack:
        """As `Zone.change`."""
        try:
            changed = await self._db.write(under, batch.lease, change_zone, batch)
        except (Unavailable, LeaseLost):
            raise
        except Exception as error:
            log.exception(
                "zone_change_refused", zone=batch.zone, names=[item.fqdn for item in batch.items][:10]
            )
            raise BatchRefused("refused", str(error)) from error
        return partial(self._read_back, batch, changed)

    async def _read_back(self, batch: Batch, changed: ZoneChanged) -> list[Result]:
        # Stale ones are neither published nor failed: they wait in their newer generation.
        left_out = changed.refused_ids | changed.stale_ids
        sent = [item for item in batch.items if item.subdomain_id not in left_out]
        refused = [
            Result(item, error=IN_USE, cause="in_use", nothing_sent=True)
            for item in batch.items
            if item.subdomain_id in changed.refused_ids
        ]
        if not sent:
            return refused
        try:
            served = await self._served([item.fqdn for item in sent], absent_owners(batch.zone, sent))
        except ReadBackFailed as error:
            log.warning("read_back_failed", zone=batch.zone, error=str(error))
            return refused + [Result(item, error=SENTENCES["read_back"], cause="read_back") for item in sent]
        served = without_wildcard(batch.zone, sent, served)
        return refused + [judge(item, served, changed.serial) for item in sent]

    async def _served(
        self, names: Sequence[str], also_absent: Sequence[str]
    ) -> Mapping[str, tuple[Record, ...]]:
        """As `read_back`, from the first name server that answers."""
        first, count = self._answered_last, len(self.addresses)
        for number in range(first, first + count):
            try:
                served = await read_back(
                    self.addresses[number % count],
                    names,
                    timeout_seconds=READ_BACK_TIMEOUT_SECONDS,
                    also_absent=also_absent,
                    referrals_have_ds=True,  # `answer._referral`
                )
            except ReadBackFailed as error:
                if number == first + count - 1:
                    raise
                log.warning("name_server_passed_over", error=str(error))
            else:
                self._answered_last = number % count
                return served
        raise ReadBackFailed("No built-in name server is known.", "unreachable")
