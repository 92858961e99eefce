"""Disks that are full, and disks that fail: a small tmpfs that is filled, or errors that strace injects into the calls of a process."""

import os
import shutil
import signal
import subprocess
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path

from long.faults.scenario import NotPossibleError
from support.serve_process import wait_until


@contextmanager
def small_disk(folder: Path, *, mib: int) -> Iterator[None]:
    """Have a folder, which is made, on a disk of its own; it has its owner's rights.

    Raises:
        NotPossibleError: nobody may mount here.
    """
    folder.mkdir(exist_ok=True)
    owner = folder.stat()
    options = f"size={mib}m,mode=700,uid={owner.st_uid},gid={owner.st_gid}"
    command = ["mount", "-t", "tmpfs", "-o", options, "sublet-test", str(folder)]
    try:
        mounted = subprocess.run(command, capture_output=True, text=True, check=False)
    except OSError as error:
        raise NotPossibleError(f"a disk can't be mounted: {error}") from error
    if mounted.returncode != 0:
        raise NotPossibleError(f"a disk can't be mounted: {mounted.stderr.strip()}")
    try:
        yield
    finally:
        subprocess.run(["umount", str(folder)], check=True)


@contextmanager
def full(folder: Path) -> Iterator[None]:
    """Leave not an octet on the disk of a folder, until the block ends."""
    ballast = folder / "ballast"
    with ballast.open("wb", buffering=0) as file:
        for size in (2**16, 2**12, 1):
            try:
                while file.write(bytes(size)) == size:
                    pass
            except OSError:  # it is full
                continue
    try:
        yield
    finally:
        ballast.unlink()


@contextmanager
def failing(
    pids: Sequence[int],
    calls: Sequence[str],
    error: str,
    folder: Path,
    paths: Sequence[Path] = (),
    *,
    threads: bool,
) -> Iterator[None]:
    """Have these calls of processes (on these files, where some are named) fail with an error, until the block ends.

    `threads` takes their threads and children too.

    Raises:
        NotPossibleError: there is no strace, or it may not look into other processes.
    """
    if shutil.which("strace") is None:
        raise NotPossibleError("strace is not installed")
    log = folder / "failing.log"
    words = ["strace", "-o", os.devnull, *(["-f"] if threads else [])]
    words += [
        "-e",
        f"trace={','.join(calls)}",
        "-e",
        f"inject={','.join(calls)}:error={error}",
        "-e",
        "signal=none",
    ]
    words += [word for path in paths for word in ("-P", str(path))]
    words += [word for pid in pids for word in ("-p", str(pid))]
    with log.open("wb") as told:
        process = subprocess.Popen(words, stdout=told, stderr=told)
    try:
        wait_until(lambda: process.poll() is not None or log.read_text().count(" attached") >= len(pids))
        # It ends with the last of them, which may be at once: that is what the fault does to them.
        if " attached" not in log.read_text():
            raise NotPossibleError(
                f"strace can't look into other processes: {log.read_text()[-300:].strip()}"
            )
        yield
    finally:
        if process.poll() is None:
            process.send_signal(signal.SIGINT)  # it lets them go on
        process.wait(20)
