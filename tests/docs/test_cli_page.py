"""docs/cli.md has a section for every command, and its examples work as printed, in their order.

What `make reference` writes into it: test_reference.py.
"""

import json
import re
import shlex
from collections.abc import Iterator
from pathlib import Path

import pytest
from reference_tables import commands
from typer.testing import CliRunner

from sublet.cli.main import app
from support import databases
from support.running_service import RunningService

PAGE = (Path(__file__).parents[2] / "docs" / "cli.md").read_text(encoding="utf-8")
QUESTIONS = (
    "list",
    "members",
    "show",
    "history",
    "evidence",
    "blocked",
    "matches",
    "check",
    "doctor",
    "settings",
    "status",
)


def sections() -> dict[str, str]:
    """Return the section of each command by its words."""
    found = {}
    for part in PAGE.split("\n### sublet ")[1:]:
        heading, _, text = part.partition("\n")
        words = " ".join(word for word in heading.split() if not word.isupper())
        found[words] = text.split("\n## ")[0]
    return found


def test_every_command_has_its_section_in_order() -> None:
    assert list(sections()) == [words for words, _ in commands()]


def examples() -> Iterator[tuple[str, str]]:
    """Yield each example line with the words of its command."""
    for words, text in sections().items():
        for block in re.findall(r"^```sh\n(.*?)^```$", text, re.MULTILINE | re.DOTALL):
            yield from ((words, line) for line in block.splitlines())


REFUSED_EXAMPLES = ("zone repair", "subdomain check-ds", "subdomain check-csync", "health resume")
"""The commands that are refused in a zone on the built-in name server, as that of the examples is, and
without automatic DS.
"""


def members(shape: str) -> set[str]:
    """Return the outermost names of a shape such as `{"id", "organization": {"id"}}`."""
    depth, outermost = 0, ""
    for char in shape:
        depth -= char in "]}"
        outermost += char if depth == 1 else ""
        depth += char in "[{"
    return set(re.findall(r'"(\w+)"', outermost))


def prepare(service: RunningService, line: str, done: set[str]) -> None:
    """Make the names and tickets that an example needs, through the API."""
    beginnings = (
        "sublet credits refund",
        "sublet subdomain list",
        "sublet ticket list",
        "sublet organization",
    )
    for beginning in beginnings:
        if line.startswith(beginning) and beginning not in done:
            done.add(beginning)
            token = service.issue_token("ada@example.org")
            if beginning == "sublet organization":
                assert service.call(token, "POST", "/organizations", {"name": "Coop"}).status_code == 201
            elif beginning == "sublet credits refund":
                service.register(token, "shop.example.test", registration_mode="plus", confirm=True)
            elif beginning == "sublet subdomain list":
                service.register(token, "blog.example.test", nameservers=["ns1.provider.example"])
                for label in ("wiki", "old"):
                    service.register(token, f"{label}.example.test")
                    service.call(token, "DELETE", f"/subdomains/{label}.example.test")
            else:
                asked = {"subject": "Slow answers", "message": "Since this morning."}
                assert service.call(token, "POST", "/support/tickets", asked).status_code == 201


@pytest.mark.slow
def test_the_examples_work(service: RunningService, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    address = service.settings.database_url
    (tmp_path / "sublet.toml").write_text(f'database_url = "{address}"\n')
    done: set[str] = set()
    ran = 0
    for words, line in examples():
        if databases.on_postgresql() and words.split()[-1] in ("backup", "restore"):
            continue  # PostgreSQL has its own
        prepare(service, line, done)
        sent = None
        if line.startswith("echo "):
            sent = shlex.split(line)[1]
        ran += 1
        arguments = shlex.split(line.split(" | ")[-1])[1:]
        plain = [word for word in arguments if word != "--json"]
        runs = [[*plain, "--json"]]
        if words.split()[-1] in QUESTIONS:
            runs.append(plain)
        for run in runs:
            result = CliRunner().invoke(app, run, env={"SUBLET_DATABASE_URL": address}, input=sent)
            expected = 1 if words in REFUSED_EXAMPLES else 0
            assert result.exit_code == expected, (line, result.output, result.exception)
            if "--json" in run and expected == 0:
                value = json.loads(result.stdout)
                shape = re.search(r"^`--json`: `(\{.*\})`", sections()[words], re.MULTILINE)
                if shape is not None:
                    assert set(value) == members(shape[1]), line
    assert ran > 50
