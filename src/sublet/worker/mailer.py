"""The mailer: empties the outbox through a transport, and never takes anything for sent that nobody took over.

A mail is claimed in one transaction, sent outside any, and recorded in another. Who dies before the record leaves the mail to be
sent again once its claim has run out, with the same Message-ID: a second copy is possible, a lost mail is not.
"""

import asyncio
import time
from collections import Counter

import structlog

from sublet.db import Database, Tx
from sublet.errors import Unavailable
from sublet.mail import store
from sublet.mail.model import Failure, Mail, Outbox
from sublet.mail.outbox import claim, record_delivery
from sublet.worker.transport import NotSent, ServerAway, Transport

POLL_SECONDS = 1.0
FAULT_PAUSE_SECONDS = 1.0
AWAY_PAUSE_MIN_SECONDS = 1.0
AWAY_PAUSE_MAX_SECONDS = 60.0
CONNECTION_MAILS_MAX = 100
"""Most mails over one connection."""
COUNT_SECONDS = 5.0
"""How old the numbers of the metrics may be."""
FINISH_SECONDS = 10.0
"""How long a mail that is being sent may take when the process is told to end."""
log = structlog.get_logger()


class Mailer:
    """Sends what is in the outbox.

    `outcomes` counts attempts by what became of them ("sent", "logged", "failed", "given_up"), for the metrics; `outbox` says
    what waited when it was last counted, `oldest_seconds` for how long the oldest of it had.
    """

    def __init__(self, db: Database, transport: Transport) -> None:
        self._db = db
        self._transport = transport
        self._counted = 0.0
        self._away_until = 0.0
        self._away_pause = AWAY_PAUSE_MIN_SECONDS
        self.outcomes: Counter[str] = Counter()
        self.outbox = Outbox(0, None)
        self.oldest_seconds = 0.0

    async def run(self) -> None:
        """Send for ever; a fault is logged and waited out, it never ends the loop."""
        while True:
            try:
                await self._count()
                if not await self.send_due():
                    # Not woken by commits: most bring no mail, and none is in such a hurry.
                    await asyncio.sleep(POLL_SECONDS)
            except Unavailable:
                await asyncio.sleep(FAULT_PAUSE_SECONDS)
            except Exception:
                log.exception("mailer_fault")
                await asyncio.sleep(FAULT_PAUSE_SECONDS)

    async def send_due(self) -> bool:
        """Send mails that are due, one after the other; tell whether there was any that could be tried.

        While no mail at all can be sent, only one is tried now and then: a dead server does not use up the others' short pauses.
        """
        tried = 0
        try:
            while tried < CONNECTION_MAILS_MAX and time.monotonic() >= self._away_until:
                if not await self._db.read(store.is_any_due) or not await self._finish_one():
                    break
                tried += 1
        finally:
            await self._transport.close()
        return tried > 0

    async def _finish_one(self) -> bool:
        """Claim, send and record one mail, within bounds even when the process is told to end; tell whether there was one."""
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
        if mail is None:  # another worker has it
            return False
        failure = await self._send(mail)
        outcome = await self._record(mail, failure)
        self.outcomes[outcome] += 1
        if failure is not None:
            # Not the sentence: servers repeat addresses in their replies.
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
            await self._transport.send(mail)
        except ServerAway as error:
            log.warning("mail_server_away", error=error.failure.sentence)
            self._away_until = time.monotonic() + self._away_pause
            self._away_pause = min(2 * self._away_pause, AWAY_PAUSE_MAX_SECONDS)
            return error.failure
        except NotSent as error:
            self._away_pause = AWAY_PAUSE_MIN_SECONDS
            return error.failure
        except Exception:
            log.exception("mail_fault", mail_id=mail.id, reference=mail.reference)
            return Failure("A fault of the service; it is in the log.")
        self._away_pause = AWAY_PAUSE_MIN_SECONDS
        return None

    async def _record(self, mail: Mail, failure: Failure | None) -> str:
        while True:  # what is not recorded is sent again
            try:
                return await self._db.write(record_delivery, mail, failure, delivers=self._transport.delivers)
            except Unavailable:
                await asyncio.sleep(FAULT_PAUSE_SECONDS)

    async def _count(self) -> None:
        if time.monotonic() - self._counted < COUNT_SECONDS and self._counted:
            return

        def ask(tx: Tx) -> tuple[Outbox, float]:
            outbox = store.count_waiting(tx)
            since = (tx.now - outbox.oldest_at).total_seconds() if outbox.oldest_at is not None else 0.0
            return outbox, max(0.0, since)

        self.outbox, self.oldest_seconds = await self._db.read(ask)
        self._counted = time.monotonic()
