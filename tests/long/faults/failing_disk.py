"""Full and failing disks: a small tmpfs that is filled, or errors that strace injects into system calls."""

import os
import signal
import subprocess
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path

from long.scenario import NotPossibleError
from support.waiting import wait_until


@contextmanager
def small_disk(folder: Path, *, mib: int) -> Iterator[None]:
    """Mount a small disk at a folder, which keeps its owner; the folder is created.

    Raises:
        NotPossibleError: this machine doesn't allow mounting.
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
    """Fill the disk of a folder to the last octet until the block ends."""
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
    """Let these system calls of processes fail with an error until the block ends; with `paths`, only on
    these files.

    `threads` includes their threads and children.

    Raises:
        NotPossibleError: strace may not trace other processes.
    """
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
        # strace ends with the last process, perhaps at once: the fault may end them.
        if " attached" not in log.read_text():
            raise NotPossibleError(f"strace can't trace other processes: {log.read_text()[-300:].strip()}")
        yield
    finally:
        if process.poll() is None:
            process.send_signal(signal.SIGINT)  # it detaches
        process.wait(60)
