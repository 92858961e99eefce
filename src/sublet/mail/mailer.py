"""Send the mails of the outbox through a transport, at least once.

The mailer claims a mail in a transaction, sends it outside, and records the outcome in a second transaction.
If the process dies before the second transaction, the mail is sent again after the claim expires, with the
same Message-ID.
"""

import asyncio
import time
from collections import Counter

import structlog

from sublet.db import Database, Tx
from sublet.errors import Unavailable
from sublet.mail import store
from sublet.mail.model import Failure, Mail, Outbox, with_link
from sublet.mail.operator_notices import is_operator_mail_due, mail_notices
from sublet.mail.outbox import claim, record_delivery
from sublet.mail.smtp import NotSent, ServerAway, Transport
from sublet.processes.repeat import FAULT_PAUSE_SECONDS, repeat

POLL_SECONDS = 1.0
BACK_OFF_MIN_SECONDS = 1.0
BACK_OFF_MAX_SECONDS = 60.0
CONNECTION_MAILS_MAX = 100
"""The maximum number of mails over a connection."""
CONNECTION_SECONDS_MAX = 30.0
"""The age at which a connection takes no more mails. Until then no waiting mail is counted, no text is erased
and no mail to the operator is enqueued.
"""
COUNT_SECONDS = 5.0
"""The minimum time between two counts of the waiting mails for the metrics."""
ERASE_SECONDS = 10.0
"""The time between two searches for expired codes."""
FINISH_SECONDS = 10.0
"""The maximum time to finish a mail when the process stops."""
log = structlog.get_logger()


class Mailer:
    """Sends the mails of the outbox, and enqueues the mails to the operator.

    `public_url` is the URL of the service for links; empty if it is unknown. `operator_mail` is the
    operator's address; if it is empty, notices to the operator are deleted. `site_name` begins the subjects
    of mails to the operator.

    For the metrics: `outcomes` is the number of attempts by outcome ("sent", "logged", "failed", "given_up"),
    `outbox` the last count of waiting mails, and `oldest_seconds` the age of the oldest waiting mail at that
    count.
    """

    def __init__(
        self,
        db: Database,
        transport: Transport,
        public_url: str = "",
        *,
        operator_mail: str = "",
        site_name: str = "Sublet",
    ) -> None:
        self._db = db
        self._operator_mail = operator_mail
        self._site_name = site_name
        self._public_url = public_url
        self._transport = transport
        self._counted = 0.0
        self._erased = 0.0
        self._away_until = 0.0
        self._away_pause = BACK_OFF_MIN_SECONDS
        self.outcomes: Counter[str] = Counter()
        self.outbox = Outbox(0, None)
        self.oldest_seconds = 0.0

    async def run(self) -> None:
        """Send mails until cancelled."""

        async def step() -> float:
            await self._count()
            await self._erase_expired_codes()
            await self.mail_operator()
            # Poll, because few commits add mail, and a second of delay doesn't matter.
            return 0.0 if await self.send_due() else POLL_SECONDS

        await repeat(step, "mailer_fault")

    async def mail_operator(self) -> None:
        """Enqueue a mail about the notices to the operator, if one is due."""
        if await self._db.read(is_operator_mail_due):
            await self._db.write(mail_notices, self._operator_mail, self._site_name)

    async def send_due(self) -> bool:
        """Send the mails that are due, one after the other. Return True if any mail was tried.

        While the server can't be used, try one mail after each pause, so that the other mails don't count
        failed attempts.
        """
        tried = 0
        until = time.monotonic() + CONNECTION_SECONDS_MAX
        try:
            while tried < CONNECTION_MAILS_MAX and time.monotonic() >= self._away_until:
                if not await self._db.read(store.is_any_due) or not await self._finish_one():
                    break
                tried += 1
                if time.monotonic() >= until:
                    break
        finally:
            await self._transport.close()
        return tried > 0

    async def _finish_one(self) -> bool:
        """Claim, send and record a mail, within `FINISH_SECONDS` even if cancelled.

        Return False if no mail was due.
        """
        sending = asyncio.create_task(self._send_one())
        try:
            return await asyncio.shield(sending)
        except asyncio.CancelledError:
            await asyncio.wait({sending}, timeout=FINISH_SECONDS)
            sending.cancel()
            await asyncio.gather(sending, return_exceptions=True)
            raise

    async def _send_one(self) -> bool:
        mail = await self._db.write(claim)
        if mail is None:  # Another worker claimed the mail.
            return False
        failure = await self._send(mail)
        outcome = await self._record(mail, failure)
        self.outcomes[outcome] += 1
        if failure is not None:
            # Don't log the sentence, because servers repeat addresses in their replies.
            log.warning(
                "mail_failed",
                mail_id=mail.id,
                reference=mail.reference,
                attempts=mail.attempts,
                given_up=outcome == "given_up",
            )
        return True

    async def _send(self, mail: Mail) -> Failure | None:
        try:
            await self._transport.send(with_link(mail, self._public_url))
        except ServerAway as error:
            log.warning("mail_server_away", error=error.failure.sentence)
            self._away_until = time.monotonic() + self._away_pause
            self._away_pause = min(2 * self._away_pause, BACK_OFF_MAX_SECONDS)
            return error.failure
        except NotSent as error:
            self._away_pause = BACK_OFF_MIN_SECONDS
            return error.failure
        except Exception:
            log.exception("mail_fault", mail_id=mail.id, reference=mail.reference)
            return Failure("An error in the service. See the log.")
        self._away_pause = BACK_OFF_MIN_SECONDS
        return None

    async def _record(self, mail: Mail, failure: Failure | None) -> str:
        while True:  # Retry, because a mail without a stored outcome is sent again.
            try:
                return await self._db.write(record_delivery, mail, failure, delivers=self._transport.delivers)
            except Unavailable:
                await asyncio.sleep(FAULT_PAUSE_SECONDS)

    async def _erase_expired_codes(self) -> None:
        if time.monotonic() - self._erased >= ERASE_SECONDS or not self._erased:
            if await self._db.read(store.has_expired_code):
                await self._db.write(store.erase_expired_codes)
            else:
                self._erased = time.monotonic()

    async def _count(self) -> None:
        if time.monotonic() - self._counted < COUNT_SECONDS and self._counted:
            return

        def query(tx: Tx) -> tuple[Outbox, float]:
            outbox = store.count_waiting(tx)
            since = (tx.now - outbox.oldest_at).total_seconds() if outbox.oldest_at is not None else 0.0
            return outbox, max(0.0, since)

        self.outbox, self.oldest_seconds = await self._db.read(query)
        self._counted = time.monotonic()
