"""The metrics of a process."""

import os
from pathlib import Path

from prometheus_client import CollectorRegistry, Counter, Histogram, generate_latest, values
from prometheus_client.multiprocess import MultiProcessCollector

METRICS_TYPE = "text/plain; version=0.0.4; charset=utf-8"
_BUCKETS = (0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1.0, 2.5, 5.0, 10.0)


def share_metrics(folder: Path, slot: int) -> None:
    """Keep the metrics of this process in files of a folder that all API processes share, from now on.

    Each running process needs its own slot. A process that gets the slot of an ended process continues that
    process's counters, because Prometheus would take a decreasing counter for a restart.
    """
    os.environ["PROMETHEUS_MULTIPROC_DIR"] = str(folder)
    values.ValueClass = values.MultiProcessValue(lambda: slot)  # type: ignore[no-untyped-call] # the library's


class Metrics:
    """The metrics of one process. The worker and the name server add their metrics to `registry`.

    `shared` is the folder of `share_metrics`: with it, `render` returns only counters and histograms, as sums
    over all processes.
    """

    def __init__(self, shared: Path | None = None) -> None:
        self._shared = shared
        self.registry = CollectorRegistry()
        self._requests = Counter(
            "sublet_http_requests",
            "Requests answered, by endpoint (the name in the OpenAPI document) and status.",
            ("endpoint", "status"),
            registry=self.registry,
        )
        self._seconds = Histogram(
            "sublet_http_request_seconds",
            "Time from the request's head to the whole answer, by endpoint.",
            ("endpoint",),
            buckets=_BUCKETS,
            registry=self.registry,
        )

        # A cache of the counters by endpoint and status, because the library's lookup by labels takes a lock.
        self._children: dict[tuple[str, int], tuple[Counter, Histogram]] = {}

    def count(self, endpoint: str, status: int, seconds: float) -> None:
        """Count one answered request."""
        found = self._children.get((endpoint, status))
        if found is None:
            children = (self._requests.labels(endpoint, str(status)), self._seconds.labels(endpoint))
            found = self._children[endpoint, status] = children
        requests, durations = found
        requests.inc()
        durations.observe(seconds)

    def render(self) -> bytes:
        """Return the metrics in Prometheus' text format (`METRICS_TYPE`); with `shared`, the sums over all
        processes.
        """
        if self._shared is None:
            return generate_latest(self.registry)
        merged = CollectorRegistry()
        MultiProcessCollector(merged, path=str(self._shared))  # type: ignore[no-untyped-call] # the library's
        return generate_latest(merged)
