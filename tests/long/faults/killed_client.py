"""SIGKILL the service while programs register paid names through the Python client: each name is paid once,
and none is lost or left unknown.
"""

import random
import signal
import threading
import time

import httpx2

from long.scenario import FAULTS, POSTGRESQL, SOAK, SQLITE, Outcome, Scenario, Trial, registry_on
from sublet_client import Client
from support.http_clients import NO_TLS
from support.running_service import Registrant
from support.serve_process import ServeProcess, serve_process, wait_until
from support.write_load import in_threads

THREADS = 2
NAMES_BETWEEN = 3
PRICE = 10
UP_SECONDS_MAX = 0.3
DEADLINE_SECONDS = 300.0
"""How long a program waits for an answer: longer than a start may take, so that it never gives up."""


def run(trial: Trial) -> Outcome:
    """Kill the service and start it again and again, while two programs register."""
    draws = random.Random(trial.seed)  # noqa: S311 - moments, no secrets
    done: list[str] = []
    faults: list[Exception] = []
    stopped = threading.Event()
    with registry_on(trial) as url, serve_process(url, trial.folder) as serving:
        serving.service.add_domain()
        who = serving.service.add_user(credit_count=100_000_000)
        serving.start()

        def register(thread: int) -> None:
            number = 0
            http = httpx2.Client(verify=NO_TLS, trust_env=False)
            address, token = serving.service.base_url, who.token
            with Client(address, token, http=http, deadline_seconds=DEADLINE_SECONDS) as client:
                while not stopped.is_set() and not faults:
                    number += 1
                    fqdn = f"t{thread}n{number}.example.test"
                    try:
                        _register(client, fqdn)
                    except Exception as error:  # noqa: BLE001 - the trial shows whatever it is
                        faults.append(error)
                        return
                    done.append(fqdn)

        with in_threads(register, THREADS, stopped):
            for _ in range(trial.count):
                _wait_for_more(done, faults)
                time.sleep(draws.uniform(0, UP_SECONDS_MAX))
                serving.stop(signal.SIGKILL)
                serving.start()
            _wait_for_more(done, faults)
        assert faults == []
        _check(serving, who, done)
        assert serving.stop() == 0
    return Outcome(f"{trial.count} kills; {len(done)} names registered and paid once each, 0 lost, 0 unknown")


def _register(client: Client, fqdn: str) -> None:
    answer = client.subdomains.register(fqdn, registration_mode="plus", confirm=True, max_credits=PRICE)
    assert answer.charged_credits == PRICE


def _wait_for_more(done: list[str], faults: list[Exception]) -> None:
    wanted = len(done) + NAMES_BETWEEN
    wait_until(lambda: bool(faults) or len(done) >= wanted, DEADLINE_SECONDS)


def _check(serving: ServeProcess, who: Registrant, done: list[str]) -> None:
    """Compare what the programs were told with what is stored and paid."""
    names = [each["fqdn"] for each in serving.service.list_all(who, "/subdomains", "subdomains")]
    payments = serving.service.list_all(who, "/payments", "payments")
    assert sorted(names) == sorted(done)
    assert [each["credits"] for each in payments if each["credits"] < 0] == [-PRICE] * len(done)
    assert serving.service.doctor() == []


KILLED_CLIENT = Scenario(
    "killed-client",
    "The service is killed under two programs that register paid names with the Python client. Each name "
    "is paid once, none is lost or left unknown. Counted are kills.",
    run,
    {FAULTS: {SQLITE: 100}, SOAK: {SQLITE: 100, POSTGRESQL: 100}},
)
