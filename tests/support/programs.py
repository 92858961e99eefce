"""The programs that tests start, such as name servers."""

import os
import shutil


def find_program(name: str) -> str:
    """Return the path of a program, also from folders of servers that a user's PATH often lacks.

    Raises:
        FileNotFoundError: it isn't installed.
    """
    found = shutil.which(name, path=f"{os.environ.get('PATH', '')}:/usr/sbin:/sbin")
    if found is None:
        raise FileNotFoundError(f"{name} is not installed. `make test` or `make soak` installs it.")
    return found
