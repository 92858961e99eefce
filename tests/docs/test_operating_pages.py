"""Every `sublet` command on a page on operating exists, with its options; limits are those of the code."""

import re
import shlex
from pathlib import Path

import pytest

from sublet.health.query_limits import ADDRESSES_MAX, CHECK_SECONDS, EXTRA_QUERIES_MAX, QUERIES_MAX
from support.deploy_files import DEPLOY, parse_command

OPERATING = DEPLOY.parent / "docs" / "operating"
PAGES = sorted(OPERATING.glob("*.md"))
_INLINE = re.compile(r"`(sublet [^`]+)`")
_BLOCK = re.compile(r"^```(?:sh)?\n(.*?)^```$", re.MULTILINE | re.DOTALL)


def commands(text: str) -> list[str]:
    """Return the `sublet` commands of a page: lines of its blocks, and inline code."""
    blocks = "\n".join(_BLOCK.findall(text)).replace("\\\n", " ").splitlines()
    found = [line for line in blocks if line.startswith("sublet ")]
    prose = re.sub(r"^```.*?^```$", "", text, flags=re.MULTILINE | re.DOTALL)
    return found + [each.replace("\n", " ") for each in _INLINE.findall(prose)]


def words_of(line: str) -> list[str]:
    """Return the words after `sublet`, with a value in each placeholder."""
    line = re.sub(r"\$\([^)]*\)", "x", re.split(r" [|>] ", line)[0])
    words = [re.sub(r"^(ID|N)$", "1", word) for word in shlex.split(line, comments=True)[1:]]
    # `…` is the value of an option, or further words.
    pairs = zip(["", *words], words, strict=False)
    return [word for before, word in pairs if word != "…" or before.startswith("--")]


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.name)
def test_every_command_of_a_page_exists(page: Path) -> None:
    for line in commands(page.read_text(encoding="utf-8")):
        words = words_of(line)
        if not words:
            continue
        try:
            parse_command(words)
        except Exception as error:
            # A sentence may name a command without its arguments. (typer's class of that name is not public.)
            if type(error).__name__ != "MissingParameter":
                raise AssertionError(f"{line}: {error!r}") from error


def test_the_page_on_health_tells_the_limits_of_a_check() -> None:
    page = " ".join((OPERATING / "health.md").read_text(encoding="utf-8").split())
    assert (
        f"A check has at most {QUERIES_MAX} queries, about eight for each address, {ADDRESSES_MAX} addresses "
        f"and {CHECK_SECONDS:.0f} seconds."
    ) in page
    assert f"add at most {EXTRA_QUERIES_MAX} queries over TCP within the same time" in page
