"""A program that answers DNS queries, from its start to its end."""

import subprocess
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

import dns.exception

from support.programs import find_program
from support.waiting import wait_until


@dataclass(frozen=True, slots=True)
class DnsProgram:
    """A started program. Its output is in a log."""

    process: "subprocess.Popen[bytes]"
    log: Path

    def wait_for(self, answers: Callable[[], bool]) -> None:
        """Wait until a query gets the wanted answer."""

        def is_ready() -> bool:
            assert self.process.poll() is None, self.log.read_text(errors="replace")[-4000:]
            try:
                return answers()
            except (dns.exception.DNSException, OSError):
                return False

        wait_until(is_ready)


@contextmanager
def dns_program(folder: Path, words: Sequence[str]) -> Iterator[DnsProgram]:
    """Start a program in a folder, and end it after the test."""
    log = folder / "log"
    with log.open("wb") as output:
        process = subprocess.Popen(
            [find_program(words[0]), *words[1:]], stdout=output, stderr=output, cwd=folder
        )
    try:
        yield DnsProgram(process, log)
    finally:
        process.terminate()
        try:
            process.wait(60)
        except subprocess.TimeoutExpired:
            process.kill()
            process.wait(60)
