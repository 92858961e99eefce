"""The service is killed and started again while the Python client registers paid names: each is paid once, and none is left unknown."""

import random
import signal
import threading
import time
from pathlib import Path

import httpx2

from sublet_client import Client
from support.http_clients import NO_TLS
from support.repetitions import share
from support.running_service import registry_address
from support.serve_process import serve_process, wait_until
from support.write_load import in_threads

KILLS = share(3, whole=100)
THREADS = 2
NAMES_BETWEEN = 3
UP_SECONDS_MAX = 0.3


def test_each_name_is_paid_once_however_often_the_service_is_killed(tmp_path: Path) -> None:
    draws = random.Random(30)  # noqa: S311 - moments, no secrets
    done: list[str] = []
    faults: list[Exception] = []
    stopped = threading.Event()
    with serve_process(registry_address(tmp_path), tmp_path) as serving:
        serving.service.add_domain()
        who = serving.service.add_user(credit_count=1_000_000)
        serving.start()

        def register(thread: int) -> None:
            number = 0
            http = httpx2.Client(verify=NO_TLS, trust_env=False)
            with Client(serving.service.base_url, who.token, http=http, deadline_seconds=180) as client:
                while not stopped.is_set() and not faults:
                    number += 1
                    fqdn = f"t{thread}n{number}.example.test"
                    try:
                        answer = client.subdomains.register(
                            fqdn, registration_mode="plus", confirm=True, max_credits=10
                        )
                    except Exception as error:  # noqa: BLE001 - the test shows whatever it is
                        faults.append(error)
                        return
                    assert answer.charged_credits == 10
                    done.append(fqdn)

        with in_threads(register, THREADS, stopped):
            for _ in range(KILLS):
                wanted = len(done) + NAMES_BETWEEN
                wait_until(lambda wanted=wanted: bool(faults) or len(done) >= wanted)  # type: ignore[misc] # bound now
                time.sleep(draws.uniform(0, UP_SECONDS_MAX))
                serving.stop(signal.SIGKILL)
                serving.start()
            wanted = len(done) + NAMES_BETWEEN
            wait_until(lambda: bool(faults) or len(done) >= wanted)
        assert faults == []
        names = [each["fqdn"] for each in serving.service.list_all(who, "/subdomains", "subdomains")]
        charges = [
            each for each in serving.service.list_all(who, "/payments", "payments") if each["credits"] < 0
        ]
        assert sorted(names) == sorted(done)
        assert len(charges) == len(done)
        assert serving.service.doctor() == []
        assert serving.stop() == 0
