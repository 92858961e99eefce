"""The results of long runs: each trial saves its own in docs/reports.json, and `make reports` renders
docs/reports.md.
"""

import json
import platform
import re
import subprocess
from collections.abc import Iterable
from dataclasses import asdict, dataclass
from datetime import UTC, datetime
from itertools import groupby
from pathlib import Path

from support.postgresql import find_postgresql
from support.programs import find_program

ROOT = Path(__file__).parents[2]
HEAD = """# Reports of long runs

The latest result of each long run, with its commit and date. Each run saves its own result in `docs/reports.json`; `make reports`
renders this page from it. Times are of machines with two cores that ran everything: the service, the databases, the name
servers and the clients. How fast the service is: [performance.md](performance.md).
"""  # noqa: E501
VERSIONS = {
    "knot": ("knotd", "-V"),
    "bind": ("named", "-v"),
    "powerdns": ("pdns_server", "--version"),
}


@dataclass(frozen=True, slots=True)
class Report:
    """The result of a run: `about` describes the run, `lines` are its figures, `versions` those of the
    programs it used.

    Reports with the same title share a section of the page.
    """

    title: str
    command: str
    about: str
    lines: list[str]
    date: str
    commit: str
    versions: str

    def render(self) -> str:
        """Return the lines for the page."""
        made = f"`{self.command}`; {self.date}, commit `{self.commit}`; {self.versions}:"
        return "\n".join([made, "", *(f"- {' '.join(line.split())}" for line in self.lines), ""])


def save_report(
    folder: Path,
    name: str,
    *,
    title: str,
    command: str,
    about: str,
    lines: Iterable[str],
    programs: Iterable[str] = (),
) -> None:
    """Store a run's result in `folder`/reports.json, in place of an older one of this name, and render the
    page.

    `programs` are the databases and name servers that it used: `postgresql`, `knot`, `bind`, `powerdns`.
    """
    versions = [f"Python {platform.python_version()}", *(f"{each} {version(each)}" for each in programs)]
    date = f"{datetime.now(UTC):%Y-%m-%d}"
    report = Report(title, command, about, list(lines), date, commit(), ", ".join(versions))
    folder.mkdir(parents=True, exist_ok=True)
    path = folder / "reports.json"
    stored = json.loads(path.read_text(encoding="utf-8")) if path.exists() else {}
    stored[name] = asdict(report)
    text = json.dumps(stored, indent=1, ensure_ascii=False, sort_keys=True)
    path.write_text(text + "\n", encoding="utf-8")
    save_page(folder)


def save_page(folder: Path) -> None:
    """Render the reports.json of a folder as its reports.md."""
    (folder / "reports.md").write_text(render_page(folder / "reports.json"), encoding="utf-8")


def render_page(path: Path) -> str:
    """Return the page of all results in a reports.json."""
    stored = json.loads(path.read_text(encoding="utf-8"))
    reports = [Report(**each) for _, each in sorted(stored.items())]
    parts = [HEAD]
    for title, group in groupby(reports, lambda each: each.title):
        same = list(group)
        parts += [f"## {title}\n\n{same[0].about}\n", *(each.render() for each in same)]
    return "\n".join(parts)


def commit() -> str:
    """Return the checked-out commit, with `-dirty` for uncommitted changes of anything but pages."""
    git = ["git", "-C", str(ROOT)]
    head = subprocess.run(
        [*git, "rev-parse", "--short=12", "HEAD"], capture_output=True, text=True, check=False
    )
    changed = subprocess.run([*git, "diff", "--quiet", "HEAD", "--", ".", ":!docs"], check=False).returncode
    return (head.stdout.strip() or "unknown") + ("-dirty" if changed else "")


def version(program: str) -> str:
    """Return the installed version of PostgreSQL or a name server."""
    if program == "postgresql":
        path, option = find_postgresql("postgres"), "--version"
    else:
        name, option = VERSIONS[program]
        path = find_program(name)
    ran = subprocess.run([path, option], capture_output=True, text=True, check=False)
    found = re.search(r"\d+\.\d+(\.\d+)?", ran.stdout + ran.stderr)
    return found[0] if found else "of unknown version"
