"""Check the running parts: the sweep, the mailer, and the checks of zones on primaries."""

from collections.abc import Iterator
from datetime import datetime, timedelta

from sqlalchemy import func, select

from sublet.accounts.session_store import sessions
from sublet.counted import counted
from sublet.dates import CLOCKS_APART
from sublet.db import Tx
from sublet.doctor.model import Violation, yield_violations
from sublet.doctor.names import stream_all
from sublet.mail.store import WAITING, mails
from sublet.platform_domains import zone_store
from sublet.platform_domains.store import platform_domains
from sublet.platform_domains.zone_store import ZoneState
from sublet.primaries.primary import CAUSES
from sublet.schema import STREAMED
from sublet.sign_in.devices import store as device_store
from sublet.sign_in.devices.store import device_requests
from sublet.sign_up.store import KEPT_FOR, mailed_codes
from sublet.subdomains.lifecycle import auto_renew_at, cooling_off_ends_at, dates_after
from sublet.subdomains.store import subdomains
from sublet.subdomains.sweep import store as sweep_store

LATE_MAX = timedelta(minutes=5)
MAIL_WAITING_MAX = timedelta(days=1)
_EXPIRING = (
    (mailed_codes, "code", KEPT_FOR),
    (sessions, "session", timedelta()),
    (device_requests, "request of a program", device_store.KEPT_FOR),
)
UNSEEN_MAX = timedelta(minutes=10)
"""The maximum age of `ZoneState.seen_at`, the last answer of a primary."""


def check_sweep(tx: Tx) -> list[Violation]:
    """Return names with wrong dates, a stopped or late sweep, and tables with expired rows that the sweep
    didn't delete.
    """
    return [*_find_wrong_dates(tx), *_check_progress(tx)]


def _check_progress(tx: Tx) -> Iterator[Violation]:
    state = sweep_store.find_sweep_state(tx)
    if state.stopped_at is not None and not state.resumed:
        sentence = (
            f"stopped at {state.stopped_at:%Y-%m-%d %H:%M} UTC: {str(state.stopped_reason).rstrip('.')}. "
            "`sublet sweep resume` resumes it."
        )
        yield Violation("sweep_runs", "sweep", 1, sentence)
        return
    long_ago = tx.now - LATE_MAX
    query = select(func.count(), func.min(subdomains.c.id)).where(
        (subdomains.c.due_at < long_ago) | (subdomains.c.loss_at < long_ago)
    )
    count, first = tx.connection.execute(query).one()
    if count:
        sentence = f"{counted(count, 'name')} wait for the sweep, this one first. Is the worker running?"
        yield Violation("sweep_is_in_time", "subdomain", first, sentence)
    for table, name, kept_for in _EXPIRING:
        late = select(func.count(), func.min(table.c.expires_at)).where(
            table.c.expires_at < long_ago - kept_for
        )
        count, expired_at = tx.connection.execute(late).one()
        if count:
            sentence = (
                f"{counted(count, name)} expired and were not deleted, the first at "
                f"{expired_at:%Y-%m-%d %H:%M} UTC"
            )
            yield Violation("expired_is_deleted", "table", table.name, sentence)


def _find_wrong_dates(tx: Tx) -> Iterator[Violation]:
    """Yield the names whose stored dates differ from the rules, so that the sweep would act at a wrong time.

    Names whose dates the sweep must still recompute after a change of the platform domain's days are left
    out.
    """
    for subdomain, stored in zip(stream_all(tx), _stream_dates(tx), strict=True):
        due_at, loss_at, is_redated = stored
        if subdomain.released_at is not None or not is_redated or (due_at is not None and due_at <= tx.now):
            continue
        right = dates_after(subdomain, tx.now, auto_renew_at(subdomain), cooling_off_ends_at(subdomain))
        is_late = (
            right.due_at is not None and right.due_at > tx.now and (due_at is None or due_at > right.due_at)
        )
        if is_late or (right.loss_at is not None and loss_at != right.loss_at):
            sentence = (
                f"its stored dates are {due_at} (due) and {loss_at} (loss); by the rules they are "
                f"{right.due_at} and {right.loss_at}"
            )
            yield Violation("dates_are_reckoned", "subdomain", subdomain.id, sentence)


def _stream_dates(tx: Tx) -> Iterator[tuple[datetime | None, datetime | None, bool]]:
    redate_after_id = platform_domains.c.redate_after_id
    is_redated = redate_after_id.is_(None) | (subdomains.c.id <= redate_after_id)
    query = select(subdomains.c.due_at, subdomains.c.loss_at, is_redated)
    query = query.select_from(subdomains.join(platform_domains)).order_by(subdomains.c.id)
    for row in tx.connection.execute(query.execution_options(**STREAMED)):
        yield row[0], row[1], row[2]


def check_mail(tx: Tx) -> list[Violation]:
    """Return the mails that have waited for more than a day, or have a time in the future.

    A mail that was given up breaks no invariant. `sublet mail list` shows it.
    """
    error = func.coalesce(mails.c.error, "is the service running?").label("error")
    late = select(mails.c.id, mails.c.reference, error).where(
        WAITING & (mails.c.created_at < tx.now - MAIL_WAITING_MAX)
    )
    future = select(mails.c.id, mails.c.reference, mails.c.created_at).where(
        mails.c.created_at > tx.now + CLOCKS_APART
    )
    is_future = "the time of {reference} is in the future: {created_at:%Y-%m-%d %H:%M} UTC"
    return [
        *yield_violations(tx, "no_mail_waits", "mail", late, "{reference} waits to be sent: {error}"),
        *yield_violations(tx, "mail_is_past", "mail", future, is_future),
    ]


def check_watch(tx: Tx) -> Iterator[Violation]:
    """Yield the zones on primaries that no worker checks, or whose repair is stopped
    until the operator acts.
    """
    states = zone_store.list_zone_states(tx)
    for platform_domain_id, domain, primary in zone_store.list_zones_on_primaries(tx):
        state = states.get(platform_domain_id, ZoneState(platform_domain_id))
        if state.watch_problem is not None:
            meaning = CAUSES.get(state.watch_problem, "the check does not end")
            sentence = f"it can't be checked on {primary}: {meaning} ({state.watch_problem_detail})"
            yield Violation("zone_is_watched", "zone", domain, sentence)
        elif state.seen_at is None or state.seen_at < tx.now - UNSEEN_MAX:
            sentence = (
                "no worker checks it. Start `sublet serve` or `sublet worker`; if one runs, wait a minute."
            )
            yield Violation("zone_is_watched", "zone", domain, sentence)
        if state.repair_stopped_at is not None:
            sentence = f"since {state.repair_stopped_at:%Y-%m-%d %H:%M} UTC: {state.repair_stopped_reason}"
            yield Violation("zone_is_repaired", "zone", domain, sentence)
