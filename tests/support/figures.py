"""Figures that tests measure, for the reports of long runs."""

import os
from pathlib import Path

FILE = "TESTS_FIGURES"
"""The variable of the environment that names the file for the figures."""


def note(figure: str) -> None:
    """Add a line to the file of figures, if the run wants them."""
    path = os.environ.get(FILE)
    if path:
        with Path(path).open("a", encoding="utf-8") as file:
            file.write(figure + "\n")
