"""Exit codes of commands and processes that fail (docs/cli.md)."""

from sublet.errors import Unavailable

REFUSED, USAGE, UNAVAILABLE, FILES_CHANGED = 1, 2, 3, 4


class FilesChanged(Unavailable):
    """The files of the SQLite database were changed while a process served it, so the process has ended."""
