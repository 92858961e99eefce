"""No answer before its sync: strace records the system calls of the service while clients write.

Each request has a unique name, which is in the database's log as it is written and in the headers of the
answer. So each answer is matched with its write of the log: a sync of that file must begin after the write
and end before the answer.
"""

import http.client
import json
import os
import signal
import threading
from bisect import bisect_left
from contextlib import ExitStack, closing
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

from long.faults.system_calls import SYNCS, Call, calls_of, tracing, wait_for_end
from long.scenario import FAULTS, POSTGRESQL, SOAK, SQLITE, Outcome, Scenario, Trial, registry_on
from support.running_service import Registrant
from support.serve_process import ServeProcess, serve_process
from support.service_on_primary import ZONE

CLIENTS = 8
ROUND = 2000
"""How many answers one trace file has: some hundred MiB."""
NAME_OCTETS = 8
"""How many digits a name has after its n, so that no name is a part of another."""


def run(trial: Trial) -> Outcome:
    """Register names by several clients at once, and compare when each was synced and answered."""
    answers = syncs = 0
    with ExitStack() as stack:
        trace = trial.folder / "service.trace"
        of_database = trial.folder / "postgresql" / "server.trace"
        url = stack.enter_context(
            registry_on(trial, prefix=tracing(of_database) if trial.database == POSTGRESQL else ())
        )
        serving = stack.enter_context(serve_process(url, trial.folder, broken=trial.broken, free_quota=10**6))
        serving.prefix = tracing(trace)
        serving.environment["SUBLET_PUBLISH_WAIT_MS"] = (
            "0"  # the answer waits for its own write, and for nothing else
        )
        serving.service.add_domain()
        ada = serving.service.add_user()
        for first in range(0, trial.count, ROUND):
            names = [f"n{number:0{NAME_OCTETS}}" for number in range(first, min(first + ROUND, trial.count))]
            trace.write_bytes(b"")
            if of_database.exists():
                os.truncate(of_database, 0)  # its tracer appends
            serving.start()
            done = _write(serving, ada, names)
            pid = serving.process.pid if serving.process else 0
            assert serving.stop(signal.SIGTERM) == 0
            wait_for_end(trace, pid)
            found = _check([trace, of_database] if trial.database == POSTGRESQL else [trace], done)
            answers, syncs = answers + len(done), syncs + found
        assert serving.service.doctor() == []
    return Outcome(
        f"{answers} answers of {CLIENTS} clients at once, each after the sync of its own write; {syncs} "
        "syncs of the log",
    )


def _write(serving: ServeProcess, who: Registrant, names: list[str]) -> list[str]:
    """Register and change names in turn, by several clients at once; return the unique names of the requests
    that succeeded.

    All must succeed, except with a broken twin: it may answer before a name is stored, so that the change of
    the name fails.
    """
    url = urlsplit(serving.service.base_url)
    done: list[str] = []
    failures: list[str] = []

    def send(mine: list[str]) -> None:
        body: dict[str, Any]
        with closing(http.client.HTTPConnection(str(url.hostname), url.port, timeout=60)) as client:
            for number, name in enumerate(mine):
                headers = {
                    "Authorization": f"Bearer {who.token}",
                    "Content-Type": "application/json",
                    # Twice: at most one of them is split between two pages of the log.
                    "X-Request-Id": f"{name}.{name}",
                }
                if number % 2 == 0:
                    # Without nameservers nothing is published; the only write is the registration.
                    method, path, body = "POST", "", {"fqdn": f"{name}.{ZONE}"}
                else:
                    method, path = "PUT", f"/{mine[number - 1]}.{ZONE}/auto-renew"
                    body = {"enabled": True, "max_credits": 5}
                client.request(method, f"{url.path}/subdomains{path}", json.dumps(body), headers)
                answer = client.getresponse()
                text = answer.read().decode()
                if answer.status in (200, 201):
                    done.append(name)
                else:
                    failures.append(f"{name}: {answer.status} {text}")

    threads = [threading.Thread(target=send, args=(names[number::CLIENTS],)) for number in range(CLIENTS)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(600)
        assert not thread.is_alive()
    assert serving.broken or failures == [], failures[:5]
    return done


def _check(traces: list[Path], names: list[str]) -> int:
    """Check that each answer came after a sync that began after its write; return the number of syncs."""
    answered: dict[str, Call] = {}
    written: dict[str, Call] = {}
    synced: dict[str, list[Call]] = {}
    wanted = set(names)
    for call in calls_of(traces):
        if call.name in SYNCS:
            synced.setdefault(call.place, []).append(call)
        elif call.place.endswith("-wal") or "/pg_wal/" in call.place:
            for name in _names_in(call.text) & wanted:
                if name not in written or call.began < written[name].began:
                    written[name] = call
        elif '"HTTP/1.1 20' in call.text:
            for name in _names_in(call.text) & wanted:
                answered[name] = call
    assert set(answered) == wanted, f"{len(wanted - set(answered))} answers are not in the trace"
    assert wanted, "nothing was done"
    for calls in synced.values():
        calls.sort(key=lambda each: each.began)
    found = [each for each in names if not _is_synced_before(answered[each], written.get(each), synced)]
    assert not found, f"{len(found)} of {len(names)} answers before their sync: {found[:5]}"
    return sum(len(calls) for place, calls in synced.items() if place.endswith("-wal") or "/pg_wal/" in place)


def _is_synced_before(answer: Call, write: Call | None, synced: dict[str, list[Call]]) -> bool:
    if write is None:
        return False
    syncs = synced.get(write.place, [])
    first = bisect_left(syncs, write.ended, key=lambda each: each.began)
    return any(each.ended <= answer.began for each in syncs[first:])


def _names_in(text: str) -> set[str]:
    pieces = text.split("n")
    return {
        f"n{piece[:NAME_OCTETS]}"
        for piece in pieces[1:]
        if piece[:NAME_OCTETS].isdigit() and len(piece) >= NAME_OCTETS
    }


SYNCED = Scenario(
    "syncs",
    "Clients write while strace records system calls. No answer comes before the sync of its write. "
    "Counted are answers.",
    run,
    {FAULTS: {SQLITE: 10_000, POSTGRESQL: 2_000}, SOAK: {SQLITE: 10_000, POSTGRESQL: 10_000}},
)
