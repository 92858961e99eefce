"""The worker's metrics for `/metrics`: counters since the process started, and the last known state of zones and name servers.

A scrape reads values in memory; it asks neither the database nor a name server.
"""

from collections.abc import Iterator, Mapping

from prometheus_client import Metric
from prometheus_client.core import CounterMetricFamily, GaugeMetricFamily
from prometheus_client.registry import Collector

from sublet.mail.mailer import Mailer
from sublet.primaries.primary import CAUSES
from sublet.primaries.publisher import Publisher
from sublet.primaries.server_watch import SECONDARY, ServerWatch
from sublet.primaries.zone_keeper import ZoneKeeper
from sublet.primaries.zone_watch import ZoneWatch
from sublet.subdomains.sweep.clockwork import Clockwork

PUBLISH_BUCKETS = (0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1.0, 2.5, 5.0, 10.0, 30.0, 60.0, 300.0, 1800.0)
"""In seconds: from the fastest publication on a primary to a long outage."""


class WorkerMetrics(Collector):
    """Metrics of publisher, clockwork and mailer."""

    def __init__(self, publisher: Publisher, clockwork: Clockwork, mailer: Mailer) -> None:
        self._publisher = publisher
        self._clockwork = clockwork
        self._mailer = mailer

    def collect(self) -> Iterator[Metric]:
        """Yield the metrics; docs/operating/monitoring.md explains them."""
        outcomes = {outcome: self._publisher.outcomes[outcome] for outcome in ("published", "failed")}
        yield _counter("sublet_published_names", "Publications, by outcome.", "outcome", outcomes)
        yield _counter(
            "sublet_swept_names",
            "Steps that time took of names, by milestone.",
            "milestone",
            self._clockwork.done,
        )
        yield GaugeMetricFamily(
            "sublet_sweep_stopped",
            "1 while the sweep waits for the operator's word.",
            self._clockwork.stopped,
        )
        kinds = ("sent", "logged", "failed", "given_up")
        outcomes = {outcome: self._mailer.outcomes[outcome] for outcome in kinds}
        yield _counter("sublet_mails", "Attempts to send a mail, by outcome.", "outcome", outcomes)
        yield GaugeMetricFamily(
            "sublet_mails_waiting", "Mails that wait to be sent.", value=self._mailer.outbox.waiting
        )
        yield GaugeMetricFamily(
            "sublet_mails_oldest_seconds",
            "For how long the oldest mail that waits has waited.",
            value=self._mailer.oldest_seconds,
        )


class ZoneMetrics(Collector):
    """Metrics of zones and name servers: failures by cause, the state of each zone, and the serial of each server."""

    def __init__(
        self, publisher: Publisher, zone_watch: ZoneWatch, server_watch: ServerWatch, keeper: ZoneKeeper
    ) -> None:
        self._publisher = publisher
        self._zone_watch = zone_watch
        self._server_watch = server_watch
        self._keeper = keeper

    def collect(self) -> Iterator[Metric]:
        """Yield the metrics; docs/operating/monitoring.md explains them."""
        causes = {cause: self._publisher.causes[cause] for cause in CAUSES}
        yield _counter(
            "sublet_publish_failures", "Publications of names that failed, by cause.", "cause", causes
        )
        outcomes = {outcome: self._keeper.checks[outcome] for outcome in ("done", "failed")}
        yield _counter("sublet_zone_checks", "Whole checks of zones, by outcome.", "outcome", outcomes)
        kinds = {kind: self._keeper.drift[kind] for kind in ("missing", "different", "orphaned")}
        yield _counter("sublet_zone_drift_found", "What whole checks found in all, by kind.", "kind", kinds)
        yield from self._of_waiting()
        yield from self._of_states()
        yield from self._of_servers()

    def _of_waiting(self) -> Iterator[Metric]:
        names = _gauge("sublet_unpublished_names", "Names whose last change is not published yet.", "zone")
        oldest = _gauge(
            "sublet_oldest_unpublished_seconds", "Age of the oldest change that is not published.", "zone"
        )
        for each in self._zone_watch.zones:
            names.add_metric([each.zone], each.waiting.names)
            oldest.add_metric([each.zone], each.oldest_seconds)
        yield from (names, oldest)

    def _of_states(self) -> Iterator[Metric]:
        problem = _gauge(
            "sublet_zone_problem", "1 while nothing can be published in a zone.", "zone", "cause"
        )
        drift = _gauge("sublet_zone_drift", "What the last whole check found, by kind.", "zone", "kind")
        checked = _gauge("sublet_zone_checked_seconds", "Age of the last whole check of a zone.", "zone")
        stopped = _gauge(
            "sublet_zone_repair_stopped",
            "1 while the repair of a zone waits for the operator's word.",
            "zone",
        )
        for each in self._zone_watch.zones:
            state = each.state
            if state is None:
                continue
            if state.problem is not None:
                problem.add_metric([each.zone, state.problem], 1)
            stopped.add_metric([each.zone], int(state.repair_stopped_at is not None))
            if each.checked_seconds is None:
                continue
            checked.add_metric([each.zone], each.checked_seconds)
            kinds = (
                ("missing", state.missing),
                ("different", state.different),
                ("orphaned", state.orphaned),
                ("foreign", state.foreign_records),
            )
            for kind, count in kinds:
                drift.add_metric([each.zone, kind], count)
        yield from (problem, drift, checked, stopped)

    def _of_servers(self) -> Iterator[Metric]:
        labels = ("zone", "role", "server")
        answers = _gauge("sublet_name_server_up", "1 while a name server tells its serial, else 0.", *labels)
        serial = _gauge("sublet_zone_serial", "The serial that a name server has of a zone.", *labels)
        lag = _gauge(
            "sublet_secondary_lag_seconds",
            "For how long a secondary has lacked what its primary has.",
            "zone",
            "server",
        )
        ahead = _gauge(
            "sublet_secondary_ahead",
            "1 while a secondary's serial is newer than its primary's: it does not follow.",
            "zone",
            "server",
        )
        for each in self._server_watch.standings:
            of_server = [each.zone, each.role, each.server]
            answers.add_metric(of_server, int(each.serial is not None))
            if each.serial is not None:
                serial.add_metric(of_server, each.serial)
            if each.lag_seconds is not None:
                lag.add_metric([each.zone, each.server], each.lag_seconds)
            if each.role == SECONDARY and each.standing in {"ahead", "current", "behind"}:
                ahead.add_metric([each.zone, each.server], int(each.standing == "ahead"))
        yield from (answers, serial, lag, ahead)


def _counter(name: str, meaning: str, label: str, counts: Mapping[str, int]) -> Metric:
    """Return a counter with one label, whose values are the keys of `counts`."""
    family = CounterMetricFamily(name, meaning, labels=[label])
    for value, count in sorted(counts.items()):
        family.add_metric([value], count)
    return family


def _gauge(name: str, meaning: str, *labels: str) -> GaugeMetricFamily:
    return GaugeMetricFamily(name, meaning, labels=labels)
