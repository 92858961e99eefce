"""The worker's metrics for `/metrics`: counters since the process started, and the last known state of zones
and name servers.

A scrape reads values in memory, and queries neither the database nor a name server.
docs/operating/monitoring.md explains each metric.
"""

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass

from prometheus_client import Metric
from prometheus_client.core import CounterMetricFamily, GaugeMetricFamily
from prometheus_client.registry import Collector

from sublet.health.health_keeper import HealthKeeper
from sublet.health.model import STATES
from sublet.mail.mailer import Mailer
from sublet.primaries.answer_check import AnswerWatch
from sublet.primaries.drift_repair import DriftRepair
from sublet.primaries.primary import CAUSES
from sublet.primaries.publisher import Publisher
from sublet.primaries.serial_watch import SECONDARY, SerialWatch
from sublet.primaries.zone_metrics import ZoneMetrics
from sublet.subdomains.sweep.runner import SweepRunner

PUBLISH_BUCKETS = (0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1.0, 2.5, 5.0, 10.0, 30.0, 60.0, 300.0, 1800.0)
"""In seconds: from the fastest publication on a primary to a long outage."""
DECISIONS = {
    "ds": (
        "Decisions about DS records that zones of names request.",
        ("keep", "replace", "remove", "refuse"),
    ),
    "csync": (
        "Decisions about nameservers and glue that zones of names request.",
        ("keep", "change", "refuse"),
    ),
}
"""The help and the kinds of decisions, by the name of the follower."""
DRIFT = ("missing", "different", "orphaned")


@dataclass(frozen=True, eq=False)
class WorkerMetrics(Collector):
    """The metrics of a worker's parts."""

    publisher: Publisher
    sweep_runner: SweepRunner
    mailer: Mailer
    zone_metrics: ZoneMetrics
    serial_watch: SerialWatch
    drift_repair: DriftRepair
    health: HealthKeeper
    answer_watch: AnswerWatch

    def collect(self) -> Iterator[Metric]:
        """Yield all metrics."""
        yield from self._of_names_and_mail()
        yield from self._of_zones()
        yield from self._of_servers()
        yield from self._of_health()

    def _of_names_and_mail(self) -> Iterator[Metric]:
        outcomes = _with_zeros(self.publisher.outcomes, ("published", "failed"))
        yield _counter("sublet_published_names", "Publications, by outcome.", "outcome", outcomes)
        causes = _with_zeros(self.publisher.causes, CAUSES)
        yield _counter("sublet_publish_failures", "Failed publications of names, by cause.", "cause", causes)
        done = self.sweep_runner.done
        yield _counter("sublet_swept_names", "Steps of the sweep, by milestone.", "milestone", done)
        yield _gauge(
            "sublet_sweep_stopped", "1 while the sweep is stopped.", [((), self.sweep_runner.stopped)]
        )
        mails = _with_zeros(self.mailer.outcomes, ("sent", "logged", "failed", "given_up"))
        yield _counter("sublet_mails", "Attempts to send a mail, by outcome.", "outcome", mails)
        waiting, oldest_seconds = self.mailer.outbox.waiting, self.mailer.oldest_seconds
        yield _gauge("sublet_mails_waiting", "Mails that wait to be sent.", [((), waiting)])
        yield _gauge("sublet_mails_oldest_seconds", "Age of the oldest waiting mail.", [((), oldest_seconds)])

    def _of_zones(self) -> Iterator[Metric]:
        checks = _with_zeros(self.drift_repair.checks, ("done", "failed"))
        yield _counter("sublet_zone_checks", "Full zone checks, by outcome.", "outcome", checks)
        drift = _with_zeros(self.drift_repair.drift, DRIFT)
        yield _counter(
            "sublet_zone_drift_found", "Differences found by full zone checks, by kind.", "kind", drift
        )
        zones = self.zone_metrics.zones
        names = [((each.zone,), each.waiting.names) for each in zones]
        yield _gauge("sublet_unpublished_names", "Names with an unpublished change.", names, "zone")
        oldest = [((each.zone,), each.oldest_seconds) for each in zones]
        yield _gauge(
            "sublet_oldest_unpublished_seconds", "Age of the oldest unpublished change.", oldest, "zone"
        )
        states = [(each.zone, each.state, each.checked_seconds) for each in zones if each.state is not None]
        problems = [((zone, state.problem), 1) for zone, state, _ in states if state.problem is not None]
        yield _gauge("sublet_zone_problem", "1 while a zone takes no changes.", problems, "zone", "cause")
        wrong = {(zone, problem.cause) for zone, problem in self.answer_watch.problems}
        answers = [(labels, 1) for labels in sorted(wrong)]
        meaning = "1 while resolvers get wrong answers of a zone, or none."
        yield _gauge("sublet_zone_answers_wrong", meaning, answers, "zone", "cause")
        stopped = [((zone,), state.repair_stopped_at is not None) for zone, state, _ in states]
        yield _gauge(
            "sublet_zone_repair_stopped", "1 while the repair of a zone is stopped.", stopped, "zone"
        )
        ages = [((zone,), seconds) for zone, _, seconds in states if seconds is not None]
        yield _gauge("sublet_zone_checked_seconds", "Age of a zone's last full check.", ages, "zone")
        found = [
            ((zone, kind), count)
            for zone, state, seconds in states
            if seconds is not None
            for kind, count in (
                *((kind, getattr(state, kind)) for kind in DRIFT),
                ("foreign", state.foreign_records),
            )
        ]
        yield _gauge(
            "sublet_zone_drift", "Differences found by the last full zone check.", found, "zone", "kind"
        )

    def _of_health(self) -> Iterator[Metric]:
        checks = _with_zeros(self.health.checks, (*STATES, "put_off"))
        yield _counter("sublet_health_checks", "Checks of delegations, by result.", "state", checks)
        states = [((state,), self.health.states.get(state, 0)) for state in STATES]
        yield _gauge("sublet_health_names", "Names by the health of their delegation.", states, "state")
        followers = {each.name: each.decisions for each in self.health.followers}
        for name, (help_text, kinds) in DECISIONS.items():
            made = _with_zeros(followers.get(name, {}), kinds)
            yield _counter(f"sublet_{name}_decisions", help_text, "decision", made)
        yield _gauge(
            "sublet_health_stopped", "1 while the brake of health checks is on.", [((), self.health.stopped)]
        )
        impaired = self.health.impaired is not None
        yield _gauge("sublet_health_impaired", "1 while this host can't check delegations.", [((), impaired)])
        overdue = self.health.overdue_seconds
        yield _gauge("sublet_health_overdue_seconds", "How late the oldest check is.", [((), overdue)])

    def _of_servers(self) -> Iterator[Metric]:
        standings = self.serial_watch.standings
        servers = [((each.zone, each.role, each.server), each.serial) for each in standings]
        labels = ("zone", "role", "server")
        up = [(server, serial is not None) for server, serial in servers]
        yield _gauge(
            "sublet_name_server_up", "1 if a name server answers with its serial, else 0.", up, *labels
        )
        serials = [(server, serial) for server, serial in servers if serial is not None]
        yield _gauge("sublet_zone_serial", "A name server's serial of a zone.", serials, *labels)
        lags = [
            ((each.zone, each.server), each.lag_seconds) for each in standings if each.lag_seconds is not None
        ]
        meaning = "For how long a secondary has been behind its primary."
        yield _gauge("sublet_secondary_lag_seconds", meaning, lags, "zone", "server")
        ahead = [
            ((each.zone, each.server), each.standing == "ahead")
            for each in standings
            if each.role == SECONDARY and each.standing in {"ahead", "current", "behind"}
        ]
        meaning = "1 while a secondary's serial is newer than its primary's, so that it does not follow."
        yield _gauge("sublet_secondary_ahead", meaning, ahead, "zone", "server")


def _with_zeros(counts: Mapping[str, int], values: Iterable[str]) -> dict[str, int]:
    """Return the count of each value, 0 if it has none."""
    return {value: counts.get(value, 0) for value in values}


def _counter(name: str, meaning: str, label: str, counts: Mapping[str, int]) -> Metric:
    family = CounterMetricFamily(name, meaning, labels=[label])
    for value, count in sorted(counts.items()):
        family.add_metric([value], count)
    return family


def _gauge(
    name: str, meaning: str, samples: Iterable[tuple[tuple[str, ...], float]], *labels: str
) -> GaugeMetricFamily:
    family = GaugeMetricFamily(name, meaning, labels=labels)
    for values, number in samples:
        family.add_metric(values, number)
    return family
