"""Parse a trace of strace: the writes, syncs and answers of a process, in the kernel's order."""

import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

from support.waiting import wait_until

SYNCS = ("fsync", "fdatasync")
WRITES = ("pwrite64", "pwritev", "write", "writev", "sendto", "sendmsg")
TEXT_OCTETS = 2**17
"""How much of each write is in the trace: more than is ever written at once."""
_WHOLE = re.compile(r"^(\d+) +(\d+\.\d+) (\w+)\((.*)\) += (-?\d+).* <(\d+\.\d+)>$")
_BEGUN = re.compile(r"^(\d+) +(\d+\.\d+) (\w+)\((.*) <unfinished \.\.\.>$")
_RESUMED = re.compile(r"^(\d+) +(\d+\.\d+) <\.\.\. (\w+) resumed>.* = (-?\d+)")
_PLACE = re.compile(r"^\d+<([^>]*)>")


@dataclass(frozen=True, slots=True)
class Call:
    """A system call that succeeded: its times in seconds, its file or socket, and its octets in strace's
    notation.
    """

    name: str
    began: float
    ended: float
    place: str
    text: str


def tracing(path: Path) -> tuple[str, ...]:
    """Return the prefix that traces a command, with its threads and children, into a file.

    The command keeps the process id; strace runs as another process.
    """
    calls = ",".join((*SYNCS, *WRITES))
    return (
        "strace", "-D", "-f", "-A", "--seccomp-bpf", "-q", "-y", "-ttt", "-T", "-s", str(TEXT_OCTETS), "-e", f"trace={calls}",  # noqa: E501
        "-e", "signal=none", "-o", str(path),
    )  # fmt: skip


def wait_for_end(path: Path, pid: int) -> None:
    """Wait until the trace of a process that has ended is complete."""
    end = re.compile(rb"^%d +[\d.]+ \+\+\+ (exited|killed)" % pid, re.MULTILINE)

    def is_written() -> bool:
        with path.open("rb") as trace:
            trace.seek(max(0, path.stat().st_size - 2000))
            return bool(end.search(trace.read()))

    wait_until(is_written)


def calls_of(paths: Sequence[Path]) -> Iterator[Call]:
    """Yield every call of these traces that succeeded."""
    for path in paths:
        begun: dict[str, tuple[float, str]] = {}
        with path.open(encoding="ascii", errors="replace") as lines:
            for line in lines:
                yield from _calls_in(line.rstrip("\n"), begun)


def _calls_in(line: str, begun: dict[str, tuple[float, str]]) -> Iterator[Call]:
    if found := _WHOLE.match(line):
        _, at, name, words, result, took = found.groups()
        began = float(at)
        ended = began + float(took)
    elif found := _BEGUN.match(line):
        begun[found[1]] = (float(found[2]), found[4])
        return
    elif (found := _RESUMED.match(line)) and found[1] in begun:
        began, words = begun.pop(found[1])
        name, result, ended = found[3], found[4], float(found[2])
    else:
        return
    if int(result) >= 0 and (place := _PLACE.match(words)):
        yield Call(name, began, ended, place[1], words)
