"""The metrics of the worker's parts: what they counted since the process began, for `/metrics`."""

from collections.abc import Iterator, Mapping

from prometheus_client import Metric
from prometheus_client.core import CounterMetricFamily, GaugeMetricFamily
from prometheus_client.registry import Collector

from sublet.worker.clockwork import Clockwork
from sublet.worker.mailer import Mailer
from sublet.worker.publisher import Publisher


class WorkerMetrics(Collector):
    """Reads the counts of publisher, clockwork and mailer at each scrape."""

    def __init__(self, publisher: Publisher, clockwork: Clockwork, mailer: Mailer) -> None:
        self._publisher = publisher
        self._clockwork = clockwork
        self._mailer = mailer

    def collect(self) -> Iterator[Metric]:
        """Yield the families, each with its meaning (docs/operating/monitoring.md)."""
        outcomes = {outcome: self._publisher.outcomes[outcome] for outcome in ("published", "failed")}
        yield counter("sublet_published_names", "Publications, by outcome.", "outcome", outcomes)
        yield counter(
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
        yield counter("sublet_mails", "Attempts to send a mail, by outcome.", "outcome", outcomes)
        yield GaugeMetricFamily(
            "sublet_mails_waiting", "Mails that wait to be sent.", value=self._mailer.outbox.waiting
        )
        yield GaugeMetricFamily(
            "sublet_mails_oldest_seconds",
            "For how long the oldest mail that waits has waited.",
            value=self._mailer.oldest_seconds,
        )


def counter(name: str, meaning: str, label: str, counts: Mapping[str, int]) -> Metric:
    """Return the family of a counter with one label, whose values are the keys of `counts`."""
    family = CounterMetricFamily(name, meaning, labels=[label])
    for value, count in sorted(counts.items()):
        family.add_metric([value], count)
    return family
