"""SIGKILL the name server, or the whole service at a named point of publishing, under load; then start it
again.

No acknowledged write may be lost, and the zone must equal the registry without any help.
"""

import random
import signal
import time
from collections.abc import Iterator, Sequence
from contextlib import suppress
from pathlib import Path

import httpx

from long.scenario import SOAK, SQLITE, Outcome, Scenario, Trial
from sublet.primaries.store import count_waiting
from support.crash_checks import WITH_GLUE, Change
from support.name_servers import KINDS
from support.serve_process import ServeProcess
from support.service_on_primary import ZONE, ServiceOn, serve_process_on, service_on
from support.waiting import wait_until
from support.write_load import Load

SETTLED_SECONDS = 60.0
"""How long a trial waits until everything is published after a start."""
FOREIGN = frozenset({(f"office.{ZONE}", "A", "192.0.2.1"), (f"partner.{ZONE}", "NS", "ns.partner.example.")})
"""Records of the zone that the registry doesn't own."""
POISON = f"poison.{ZONE}"
"""A name that the name server refuses after `refuse_poison`."""
ANYWHERE = "anywhere"
POINTS = (
    ANYWHERE,
    "committed",
    "written_ahead",
    "sent",
    "applied",
    "published",
    "recorded",
    "settling",
    "probed",
)
"""Where the service is killed: see `killed_serve.py`; "anywhere" is a random moment under load."""


def points_of(kind: str) -> tuple[str, ...]:
    """Return the points that a trial with this server reaches; only BIND refuses a name, so that the zone is
    probed.
    """
    return tuple(each for each in POINTS if each != "probed" or kind == "bind")


def server_killed(kind: str, folder: Path, *, kills: int, seed: int = 1) -> str:
    """Kill a primary at random moments under load and start it, again and again; return a line of the report.

    Raises AssertionError if a request is refused, an acknowledged write is lost, or the zone differs at the
    end.
    """
    draws = random.Random(seed)  # noqa: S311 - moments, no secrets
    kept = lost = 0
    with service_on(kind, folder, publish_wait_ms=50, records=True) as on:
        load = _begin(on, threads=3)
        with load.running():
            for _ in range(kills):
                time.sleep(draws.uniform(0.2, 1.5))
                active = load.untouched_active()
                time.sleep(draws.uniform(0, 0.3))
                on.primary.kill()
                time.sleep(draws.uniform(0, 1))
                on.primary.start()
                found = on.records()
                for fqdn, (touched, records) in active.items():
                    if load.touched[fqdn] == touched:
                        served = records <= found
                        kept, lost = kept + served, lost + (not served)
        names = _settle(on, load)
        _check_all(on)
    assert load.requests
    return (
        f"{_line('the server', kills, load.requests, len(load.doubtful), names)}; of {kept + lost} seen "
        f"active before a kill {lost} were not served after it, and repaired"
    )


def _line(killed: str, kills: int, requests: int, lost_answers: int, names: int) -> str:
    return (
        f"{killed} killed {kills} times; {requests} requests acknowledged, {lost_answers} answers lost; "
        f"{names} names equal at the end"
    )


def worker_killed(
    kind: str, folder: Path, *, points: Sequence[str], kills: int, broken: str = "", seed: int = 1
) -> Iterator[str]:
    """Kill the service at each point under load, `kills` times, and start it; yield a line of the report for
    each point.

    Raises AssertionError like `server_killed`, after any of the kills.
    """
    draws = random.Random(seed)  # noqa: S311 - moments, no secrets
    armed = folder / "armed"
    with serve_process_on(kind, folder, broken=broken, records=True) as (on, serving):
        serving.environment |= {"SUBLET_PUBLISH_WAIT_MS": "0", "KILL_ARMED": str(armed)}
        load = _begin(on, threads=2)
        for point in points:
            if point == "probed":
                refuse_poison(on)
            requests, lost_answers = load.requests, len(load.doubtful)
            for _ in range(kills):
                _kill_once(serving, load, point, armed, draws)
                serving.start()
                names = _settle(on, load)
                serving.stop(signal.SIGKILL)  # the next start has its own point
            requests, lost_answers = load.requests - requests, len(load.doubtful) - lost_answers
            assert names
            yield _line(f"the service at {point!r}", kills, requests, lost_answers, names)
        serving.start()
        _check_all(on)
        assert serving.stop() == 0


def _kill_once(serving: ServeProcess, load: Load, point: str, armed: Path, draws: random.Random) -> None:
    """Start the service and let it die under load: at a point, or at a random moment."""
    if point == ANYWHERE:
        serving.start()
        with load.running():
            wait_until(lambda: bool(load.acknowledged))
            time.sleep(draws.uniform(0, 1))
            serving.stop(signal.SIGKILL)
        return
    if point == "settling":  # it settles at its start, if changes wait
        serving.start("committed")
    else:
        serving.start(point)
    if point == "probed":
        _touch_poison(load)
    armed.write_text("1" if point == "probed" else str(draws.randint(1, 5)))
    with load.running():
        wait_until(serving.ended, SETTLED_SECONDS)
        if point == "settling":
            serving.wait()
            armed.write_text("1")
            serving.start(point, wait=False)
            wait_until(serving.ended, SETTLED_SECONDS)
        assert serving.wait() == -signal.SIGKILL, serving.log.read_text()[-4000:]
    armed.unlink()


def crash_leaves_nothing_old(
    kind: str,
    folder: Path,
    change: Change,
    expected: set[tuple[str, str, str]],
    *,
    broken: str = "",
    seconds: float = SETTLED_SECONDS,
) -> None:
    """Kill the service after the server applied an update and before that is recorded, then change the name:
    no old record stays.
    """
    with serve_process_on(kind, folder, broken=broken) as (on, serving):
        serving.environment["SUBLET_PUBLISH_WAIT_MS"] = "0"
        service = on.service
        ada = service.add_user()
        serving.start("applied")
        with suppress(httpx.TransportError):  # it may die before its answer
            service.call(ada, "POST", "/subdomains", WITH_GLUE)
        wait_until(serving.ended, SETTLED_SECONDS)
        assert serving.wait() == -signal.SIGKILL
        assert len(on.records()) == 5, "it was not killed at the point"
        change(service, ada)
        serving.start()
        with suppress(AssertionError):  # the zone's difference tells more
            wait_until(lambda: service.read(count_waiting) == {}, seconds)
        found = on.records()
        assert found == expected, sorted(found ^ expected)
        assert service.read(count_waiting) == {}
        service.register(ada, f"other.{ZONE}", nameservers=["ns1.provider.example"])
        wait_until(lambda: on.records() == expected | {(f"other.{ZONE}", "NS", "ns1.provider.example.")})
        assert serving.stop() == 0


def refuse_poison(on: ServiceOn) -> None:
    """Let BIND refuse any update with the name `POISON`."""
    server = on.primary
    configuration = Path(server.configuration)
    text = configuration.read_text(encoding="utf-8")
    grant = f"grant {server.key.name} wildcard"
    assert grant in text
    server.stop()
    configuration.write_text(
        text.replace(grant, f"deny {server.key.name} name {POISON} ANY;\n {grant}"), encoding="utf-8"
    )
    server.start()


def _touch_poison(load: Load) -> None:
    """Register the poison name, or change it."""
    records = frozenset({(POISON, "NS", f"ns{time.monotonic_ns()}.provider.example.")})
    body = {"nameservers": [rdata.rstrip(".") for _, _, rdata in records]}
    is_new = POISON not in load.acknowledged
    answer = (
        load.service.call(load.who, "POST", "/subdomains", {"fqdn": POISON, **body})
        if is_new
        else load.service.call(load.who, "PUT", f"/subdomains/{POISON}/nameservers", body)
    )
    assert answer.is_success, answer.text
    load.acknowledged[POISON] = records


def _begin(on: ServiceOn, threads: int) -> Load:
    on.primary.nsupdate([f"add {owner}. 300 {kind} {rdata}" for owner, kind, rdata in sorted(FOREIGN)])
    return Load(on.service, on.service.add_user(), threads, with_records=True)


def _settle(on: ServiceOn, load: Load) -> int:
    """Wait until all changes are published, compare everything, and return the number of names."""
    wait_until(lambda: _rests(on, load), SETTLED_SECONDS)
    shown = load.check_stored()
    statuses = {each.status for fqdn, each in shown.items() if fqdn != POISON}
    assert statuses <= {"active"}, statuses
    wanted = {record for fqdn, each in shown.items() if fqdn != POISON for record in each.records}
    found = on.records()
    assert found == wanted | FOREIGN, sorted(found ^ (wanted | FOREIGN))
    differences = on.service.operator("zone", "check", ZONE)
    assert not any(differences[each] for each in ("missing", "different", "orphaned")), differences
    return len(shown)


def _check_all(on: ServiceOn) -> None:
    """Check every invariant, until the zone check has looked again after the kills."""
    with suppress(AssertionError):  # the violations tell more
        wait_until(lambda: on.service.doctor() == [], SETTLED_SECONDS)
    found = on.service.doctor()
    assert found == [], found


def _rests(on: ServiceOn, load: Load) -> bool:
    if POISON in load.acknowledged:
        shown = load.shown()
        return shown[POISON].status == "failed" and all(
            each.status == "active" for fqdn, each in shown.items() if fqdn != POISON
        )
    return on.service.read(count_waiting) == {}


def run(trial: Trial) -> Outcome:
    """Kill the server, then the service at each point it reaches, `count` times each."""
    for name in ("server", "service"):
        (trial.folder / name).mkdir()
    points = points_of(trial.server)
    lines = [
        server_killed(trial.server, trial.folder / "server", kills=trial.count, seed=trial.seed),
        *worker_killed(
            trial.server, trial.folder / "service", points=points, kills=trial.count, seed=trial.seed
        ),
    ]
    return Outcome("\n".join(lines))


KILLS = Scenario(
    "kills",
    "Under load, the name server is killed and restarted, then the service at each named point of its "
    "publishing, without other help. Every acknowledged write must be stored and in the zone, and nothing "
    "else except foreign records. Counted are kills.",
    run,
    {SOAK: {SQLITE: 25}},
    KINDS,
)
