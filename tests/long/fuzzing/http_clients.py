"""Clients that send drawn requests to a real service over kept connections, and look at each answer."""

import re
import socket
import time
from collections import Counter
from contextlib import suppress
from dataclasses import dataclass, field

from hypothesis import HealthCheck, Phase, given, seed, settings
from hypothesis import strategies as st

from long.fuzzing.aim import WELL_FORMED, Aim, Request
from long.fuzzing.canaries import Canary
from long.fuzzing.drawing import drawn_requests
from long.fuzzing.slow import SLOW_SECONDS, is_slow

HANG_SECONDS = 10.0
BATCH = 4
"""Requests that one example of hypothesis has."""
ROUND = 100
"""Examples of one run of hypothesis: it remembers them all, to draw none twice."""
FINDINGS_MAX = 20
_STATUS = re.compile(rb"HTTP/1\.1 (\d{3}) ")


@dataclass(slots=True)
class HttpTally:
    """Counts requests and answers."""

    requests: int = 0
    kinds: Counter[str] = field(default_factory=Counter)
    operations: Counter[str] = field(default_factory=Counter)
    statuses: Counter[int] = field(default_factory=Counter)
    """Answers by status; 0 for a connection closed without an answer."""
    longest_seconds: float = 0.0
    findings: list[str] = field(default_factory=list)

    def find(self, sentence: str) -> None:
        """Note what must not be."""
        if len(self.findings) < FINDINGS_MAX:
            self.findings.append(sentence)

    def add(self, other: "HttpTally") -> None:
        """Add what another client counted."""
        self.requests += other.requests
        self.longest_seconds = max(self.longest_seconds, other.longest_seconds)
        self.kinds += other.kinds
        self.operations += other.operations
        self.statuses += other.statuses
        self.findings += other.findings


class Client:
    """A client with one connection, kept open while the service keeps it."""

    def __init__(self, aim: Aim, canaries: tuple[Canary, ...]) -> None:
        self.tally = HttpTally()
        self._aim = aim
        self._canaries = canaries
        self._any_canary = re.compile(b"|".join(re.escape(each.text.lower().encode()) for each in canaries))
        self._connection: socket.socket | None = None

    def send(self, request: Request) -> None:
        """Send a request and look at what comes back."""
        tally = self.tally
        tally.requests += 1
        tally.kinds[request.kind] += 1
        tally.operations[request.operation] += 1
        started = time.monotonic()
        try:
            answers = self._exchange(request)
        except TimeoutError:
            tally.find(f"no answer in {HANG_SECONDS:g} s: {request.octets[:2000]!r}")
            self.close()
            answers = []
        seconds = time.monotonic() - started
        tally.longest_seconds = max(tally.longest_seconds, seconds)
        if is_slow(seconds, lambda: self._ask_again(request)):
            tally.find(f"an answer takes longer than {SLOW_SECONDS:g} s each time: {request.octets[:2000]!r}")
        for status, octets in answers:
            tally.statuses[status] += 1
            if status >= 500:
                tally.find(f"{status}: {request.octets[:2000]!r} was answered with {octets[-500:]!r}")
            self._look_for_canaries(request, octets)
        if not answers:
            tally.statuses[0] += 1
            if request.kind == WELL_FORMED:
                tally.find(f"closed without an answer: {request.octets[:2000]!r}")

    def _ask_again(self, request: Request) -> None:
        with suppress(TimeoutError):
            self._exchange(request)
            return
        self.close()

    def _look_for_canaries(self, request: Request, octets: bytes) -> None:
        """Note a canary of another account than the token's, unless the request itself has it."""
        lower = octets.lower()
        for found in set(self._any_canary.findall(lower)):
            owners = {
                token
                for each in self._canaries
                if each.text.lower().encode() == found
                for token in each.tokens
            }
            if request.token not in owners and found not in request.octets.lower():
                self.tally.find(
                    f"the canary {found!r} is in an answer to {request.octets[:2000]!r}: {octets[-500:]!r}"
                )

    def _exchange(self, request: Request) -> list[tuple[int, bytes]]:
        """Send it and return the answers: one, or what there is until the connection is closed."""
        if request.ends:
            self.close()
        for again in (False, True):
            fresh = self._connection is None
            connection = self._connection or socket.create_connection(self._aim.address, timeout=HANG_SECONDS)
            self._connection = connection
            received = b""
            with suppress(ConnectionError):
                connection.sendall(request.octets)
            with suppress(ConnectionError):
                if request.ends:
                    # A service that refused early may have reset the connection: then there is nothing left
                    # to end, and the operating system says so with an error that is no ConnectionError.
                    with suppress(OSError):
                        connection.shutdown(socket.SHUT_WR)
                    while chunk := connection.recv(65536):
                        received += chunk
                    self.close()
                    return split_answers(received)
                head = request.octets.startswith(b"HEAD ")
                while (size := _answer_bytes(received, head=head)) is None:
                    chunk = connection.recv(65536)
                    if not chunk:
                        break
                    received += chunk
                if (
                    size is not None
                    and b"connection: close" not in received[:size].partition(b"\r\n\r\n")[0].lower()
                ):
                    return split_answers(received)
            self.close()
            if received or fresh or again:
                return split_answers(received)
            # The service may close an idle connection; the client opens another one.
        raise AssertionError

    def close(self) -> None:
        """Close the connection."""
        if self._connection is not None:
            self._connection.close()
            self._connection = None


def _answer_bytes(received: bytes, *, head: bool) -> int | None:
    """Return how long the first answer is, with a `100 Continue` before it, or None while it isn't there
    whole.
    """
    start = received.find(b"\r\n\r\n") + 4 if received.startswith(b"HTTP/1.1 100 ") else 0
    end = received.find(b"\r\n\r\n", start)
    if end < 0:
        return None
    fields = received[start : end + 2]
    if not head and re.search(rb"(?i)\r\ntransfer-encoding: *chunked\r\n", fields):
        last = received.find(b"\r\n0\r\n\r\n", end + 4)  # JSON has no line break of its own
        return last + 7 if last >= 0 else None
    found = re.search(rb"(?i)\r\ncontent-length: *(\d+)", fields)
    length = 0 if head or found is None else int(found[1])
    return end + 4 + length if len(received) >= end + 4 + length else None


def split_answers(received: bytes) -> list[tuple[int, bytes]]:
    """Return each answer's status and octets; octets left over belong to the last."""
    answers = []
    while found := _STATUS.match(received):
        size = _answer_bytes(received, head=False) or len(received)
        status = int(found[1])
        if status == 100:
            after = _STATUS.search(received, 12)
            status = int(after[1]) if after else status
        answers.append((status, received[:size]))
        received = received[size:]
    if received and answers:
        status, last = answers.pop()
        answers.append((status, last + received))
    return answers


def send_requests(
    aim: Aim, canaries: tuple[Canary, ...], first_seed: int, count: int, seconds: float
) -> HttpTally:
    """Let hypothesis draw requests and send them: `count`, or as many as the time allows."""
    client = Client(aim, canaries)
    ends_at = time.monotonic() + seconds
    batches = st.lists(drawn_requests(aim), min_size=BATCH, max_size=BATCH)
    round_number = 0

    def enough() -> bool:
        return client.tally.requests >= count or time.monotonic() >= ends_at

    while not enough():

        @seed(first_seed + round_number)
        @settings(
            max_examples=ROUND,
            database=None,
            deadline=None,
            phases=[Phase.generate],
            suppress_health_check=list(HealthCheck),
        )
        @given(batches)
        def send_batch(batch: list[Request]) -> None:
            for request in batch:
                if not enough():
                    client.send(request)

        send_batch()
        round_number += 1
    client.close()
    return client.tally
