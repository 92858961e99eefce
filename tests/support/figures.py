"""Store the figures that tests measure, for the reports of long runs."""

import os
from pathlib import Path

FILE = "TESTS_FIGURES"
"""The environment variable with the path of the file of figures."""


def note(figure: str) -> None:
    """Append a line to the file of figures, if the environment names one."""
    path = os.environ.get(FILE)
    if path:
        with Path(path).open("a", encoding="utf-8") as file:
            file.write(figure + "\n")
