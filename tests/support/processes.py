"""Find processes of this machine (Linux)."""

from pathlib import Path


def _state_and_parent(pid: int | str) -> tuple[str, int] | None:
    """Return the state letter and the parent of a process; None if the process has ended."""
    try:
        # pid (name) state parent …: the name may have spaces and parentheses.
        state, parent = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[:2]
    except OSError:
        return None
    return None if state == "Z" else (state, int(parent))


def children_of(pid: int) -> list[int]:
    """Return the ids of the running processes whose parent is `pid`."""
    running = {int(each.name): _state_and_parent(each.name) for each in Path("/proc").glob("[0-9]*")}
    return sorted(child for child, found in running.items() if found is not None and found[1] == pid)


def is_running(pid: int) -> bool:
    """Return True if a process exists and hasn't ended."""
    return _state_and_parent(pid) is not None
