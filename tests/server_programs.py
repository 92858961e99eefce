"""How each name server is started, changed by hand and made to forget: what differs between them, for `name_servers`."""

import os
import shlex
import shutil
import subprocess
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Protocol

from sublet.dns.server_config.knot import knot_primary, knot_secondary
from sublet.dns.server_config.model import SecondarySite, ServerConfig, Site

if TYPE_CHECKING:
    from name_servers import NameServerProcess


def run_tool(command: str | Sequence[str], text: str | None, folder: Path) -> str:
    """Run a command that has to work, and return what it printed; a line is split as the shell would."""
    environment = {**os.environ, "PATH": f"{os.environ.get('PATH', '')}:/usr/sbin:/sbin"}
    done = subprocess.run(
        shlex.split(command) if isinstance(command, str) else command,
        input=text,
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
        cwd=folder,
        env=environment,
    )
    assert done.returncode == 0, (command, done.stdout, done.stderr)
    return done.stdout


class Program(Protocol):
    """What differs between the servers."""

    programs: tuple[str, ...]

    def configure_primary(self, site: Site) -> ServerConfig:
        """Return the configuration of a primary, as it is shipped."""
        ...

    def configure_secondary(self, site: SecondarySite) -> ServerConfig:
        """Return the configuration of a secondary, as it is shipped."""
        ...

    def start_command(self, server: "NameServerProcess") -> str:
        """Return the command that runs it in the foreground."""
        ...

    def change_by_hand(self, server: "NameServerProcess", changes: list[list[str]]) -> None:
        """Change the zone beside the updates."""
        ...

    def forget(self, server: "NameServerProcess") -> None:
        """Remove what it remembers of the zone's content; it is not running."""
        ...

    def load(self, server: "NameServerProcess", zone_file: str) -> None:
        """Take a zone file, where the start alone doesn't; it is not running."""
        ...


class Knot:
    programs = ("knotd", "knotc", "keymgr")

    def configure_primary(self, site: Site) -> ServerConfig:
        return knot_primary(site)

    def configure_secondary(self, site: SecondarySite) -> ServerConfig:
        return knot_secondary(site)

    def start_command(self, server: "NameServerProcess") -> str:
        return f"knotd -c {shlex.quote(server.configuration)}"

    def change_by_hand(self, server: "NameServerProcess", changes: list[list[str]]) -> None:
        control = ["knotc", "-b", "-s", f"{server.folder}/r/knot.sock"]
        server.run([*control, "zone-begin", server.zone])
        for verb, owner, *rest in changes:
            action = "zone-set" if verb == "add" else "zone-unset"
            server.run([*control, action, server.zone, f"{owner.rstrip('.')}.", *rest])
        server.run([*control, "zone-commit", server.zone])

    def forget(self, server: "NameServerProcess") -> None:
        shutil.rmtree(server.folder / "s" / "journal", ignore_errors=True)

    def load(self, server: "NameServerProcess", zone_file: str) -> None:
        """The start does."""


PRIMARIES: dict[str, Program] = {"knot": Knot()}
SECONDARIES: dict[str, Program] = {"knot": Knot()}
