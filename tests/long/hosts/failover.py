"""The primary's PostgreSQL or its whole node fails under a load of paid registrations; Patroni lets another
node take over.

No operator acts. The failed node comes back under load when writes are acknowledged again, and the next
failure waits until three nodes are there.
"""

import statistics
import time
from collections.abc import Callable
from dataclasses import dataclass

from sqlalchemy import func, select

from long.hosts.installation import Part, installation_over
from long.hosts.patroni_cluster import Node, PatroniCluster, patroni_cluster
from long.hosts.trials import Loaded, check, prepared, summary
from long.scenario import POSTGRESQL, SOAK, Outcome, Scenario, Trial
from sublet.credits.store import ledger_accounts
from sublet.db import Tx
from support import http_clients
from support.waiting import wait_until

PAUSE_SECONDS = 0.3
"""How long a client waits between two requests."""
FROZEN_SECONDS = 40.0
"""How long a node is frozen: twice the time after which another one takes over."""
Fail = Callable[[Node], None]


def _pause(node: Node) -> None:
    node.freeze()
    time.sleep(FROZEN_SECONDS)
    node.thaw()


KILLS: dict[str, Fail] = {
    "kills of the primary's PostgreSQL": Node.kill_postmaster,
    "kills of the primary's node (PostgreSQL, Patroni and etcd)": Node.kill,
}
PAUSES: dict[str, Fail] = {f"pauses of the primary's node for {FROZEN_SECONDS:g} s (SIGSTOP)": _pause}


@dataclass(frozen=True, slots=True)
class Failover:
    """The result of one kill: the longest time without an acknowledged write, and whether another node took
    over.
    """

    silence_seconds: float
    has_moved: bool


def _run(trial: Trial, failures: dict[str, Fail], *, looks: bool = True) -> Outcome:
    """Let the primary fail `count` times in each way; check everything after each time.

    `looks`: clients read what they wrote.
    """
    with (
        patroni_cluster(trial.folder / "p") as cluster,
        installation_over(trial.folder, cluster, None, children=1, workers=1) as running,
    ):
        loaded = prepared(running, modes=("plus",), looks=looks, pause_seconds=PAUSE_SECONDS, seed=trial.seed)
        try:
            lines = [_repeated(loaded, cluster, what, fail, trial.count) for what, fail in failures.items()]
        except BaseException as error:
            error.add_note(running.logs())
            raise
        assert [part.name for part in running.parts if part.starts > 1] == []
        assert cluster.deadlocks() == []
        return Outcome("\n".join([*lines, summary(loaded), "no process of Sublet was restarted"]))


def _repeated(loaded: Loaded, cluster: PatroniCluster, what: str, fail: Fail, count: int) -> str:
    """Return the line of a report about one kind of failure."""
    results = []
    for _ in range(count):
        results.append(_fail_over(loaded, cluster, fail))
        print(what, results[-1], flush=True)
    silences = [each.silence_seconds for each in results]
    return (
        f"{count} {what}: another node took over {sum(each.has_moved for each in results)} times; seconds "
        f"without an acknowledged write: {statistics.median(silences):.1f} in the median, "
        f"{max(silences):.1f} at most; 0 acknowledged writes lost, 0 charged twice, checked after each"
    )


def _fail_over(loaded: Loaded, cluster: PatroniCluster, fail: Fail) -> Failover:
    cluster.wait_until_whole()
    node = cluster.primary()
    with loaded.load.running():
        loaded.wait_for_acknowledgements()
        began = time.monotonic()
        fail(node)
        # more than there are clients, so some of them came after the failure
        loaded.wait_for_acknowledgements()
        loaded.probe()
        primary = cluster.primary()
        _check_service(loaded, primary)
        if node.patroni is None:
            node.start(cluster.nodes)
        cluster.wait_until_whole()
        loaded.wait_for_acknowledgements()
        silence = loaded.load.traffic.longest_silence(began, time.monotonic())
    check(loaded.running, loaded.accounts)
    assert loaded.running.service.read(_sum_of_ledger) == 0
    return Failover(silence, primary is not node)


def _check_service(loaded: Loaded, primary: Node) -> None:
    """Check that every process has found the new primary, and that the name server answers with what was
    registered last.
    """
    for part in loaded.running.parts:
        wait_until(lambda of=part: _primary_of(of) == primary.ports["postgresql"])  # type: ignore[misc]
    fqdn, name = list(loaded.prober.account.names.items())[-1]
    served = loaded.running.service.delegation(fqdn)
    assert served == {rdata.rstrip(".") for _, kind, rdata in name.records if kind == "NS"}, (served, name)


def _primary_of(part: Part) -> int:
    """Return the port of the primary that a process names."""
    shown = http_clients.get(f"http://{part.address}/readyz", timeout=10).json()
    return int(shown.get("postgresql", {"primary": ":0"})["primary"].rpartition(":")[2])


def _sum_of_ledger(tx: Tx) -> int:
    return int(tx.connection.execute(select(func.sum(ledger_accounts.c.balance))).scalar_one())


_ABOUT = (
    "Three nodes of etcd, Patroni and PostgreSQL with the files of `deploy/patroni/`, two API processes, a "
    "worker and a built-in name server, all processes of one machine. Clients register paid names, renew, "
    "change and delete them, and repeat each request under its `Idempotency-Key` until it is answered. {} "
    "No operator acts. The node comes back under load. After each time exactly the acknowledged writes "
    "must be there, charged once, and the doctor finds nothing. Counted are the {}."
)
PATRONI = Scenario(
    "patroni",
    _ABOUT.format("The primary's PostgreSQL is killed, then its whole node.", "kills of each kind"),
    lambda trial: _run(trial, KILLS),
    {SOAK: {POSTGRESQL: 20}},
)
PATRONI_PAUSED = Scenario(
    "patroni-paused",
    _ABOUT.format(
        "The primary's node stops in the middle of its work, and goes on after another one has taken over.",
        "pauses",
    ),
    # A request that waits for the paused primary is answered from its old state when it wakes, before Patroni
    # stops it.
    lambda trial: _run(trial, PAUSES, looks=False),
    {SOAK: {POSTGRESQL: 5}},
)
