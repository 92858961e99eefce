"""The worker as a part of a process: publisher, sweep, mailer, zone metrics, serial watch, drift repair and
health checks.
"""

from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from functools import partial

from prometheus_client import Histogram

from sublet.child_zones.followers import CsyncFollower, DsFollower
from sublet.config import Settings, operator_address
from sublet.db import Database
from sublet.health.checker import Checker
from sublet.health.health_keeper import Follower, HealthKeeper
from sublet.mail.mailer import Mailer
from sublet.mail.smtp import LogTransport, PrintTransport, SmtpTransport, Transport, smtp_server
from sublet.metrics import Metrics
from sublet.primaries.answer_check import AnswerCheck, AnswerWatch
from sublet.primaries.drift_repair import DriftRepair
from sublet.primaries.find_primary import find_primary
from sublet.primaries.publisher import Publisher
from sublet.primaries.serial_watch import SerialWatch
from sublet.primaries.zone_metrics import ZoneMetrics
from sublet.service.announced import Presence
from sublet.service.event_loop import run_in_background
from sublet.service.worker_metrics import PUBLISH_BUCKETS, WorkerMetrics
from sublet.subdomains.sweep.runner import Monotonic, SweepRunner


def mail_transport(settings: Settings) -> Transport:
    """Return the transport for mail that `mail_transport` names.

    Raises:
        SettingsError: the file in `smtp_password_file` can't be read.
    """
    if settings.mail_transport == "smtp":
        return SmtpTransport(smtp_server(settings))
    return PrintTransport() if settings.mail_transport == "print" else LogTransport()


@asynccontextmanager
async def worker_running(
    settings: Settings,
    db: Database,
    metrics: Metrics,
    transport: Transport,
    monotonic: Monotonic,
    presence: Presence,
) -> AsyncIterator[Callable[[], bool]]:
    """Run the worker until the block ends. Yield a function that returns True while all parts run."""
    publish_seconds = Histogram(
        "sublet_publish_seconds",
        "Time from a change of a name to its publication on a primary.",
        buckets=PUBLISH_BUCKETS,
        registry=metrics.registry,
    )
    primary_of = partial(find_primary, settings.primaries)
    publisher = Publisher(
        db,
        primary_of,
        batch_max={each.name: each.batch_max for each in settings.primaries},
        on_published=lambda passed: publish_seconds.observe(passed.total_seconds()),
        holder=presence.id,
        is_alone=presence.is_only_worker,
    )
    sweep_runner = SweepRunner(db, monotonic, holder=presence.id, clock_ahead=lambda: presence.clock_ahead)
    mailer = Mailer(
        db,
        transport,
        settings.public_url.rstrip("/"),
        operator_mail=operator_address(settings),
        site_name=settings.site_name,
    )
    zone_metrics, serial_watch = ZoneMetrics(db), SerialWatch(db, primary_of, monotonic)
    drift_repair = DriftRepair(db, settings.database_url, primary_of, holder=presence.id)
    checker = Checker(settings, db, monotonic) if settings.health_checks else None
    followers: list[Follower] = []
    if checker is not None:
        followers = [DsFollower(db, settings.health_resolver), CsyncFollower(db, checker)]
    health = HealthKeeper(db, checker, holder=presence.id, followers=followers)
    answer_watch = AnswerWatch(db, AnswerCheck(settings, db))
    parts = (publisher, sweep_runner, mailer, zone_metrics, serial_watch, drift_repair, health, answer_watch)
    metrics.registry.register(WorkerMetrics(*parts))
    async with run_in_background(*(part.run() for part in parts)) as tasks:
        yield lambda: not any(task.done() for task in tasks)
