"""The differences between name server programs for `name_servers`: how to start one, change its zone by hand,
and delete its state.
"""

import os
import shlex
import shutil
import subprocess
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from sublet.primaries.server_config import (
    SecondarySite,
    ServerConfig,
    Site,
    bind_primary,
    knot_primary,
    knot_secondary,
    nsd_secondary,
    powerdns_primary,
)

if TYPE_CHECKING:
    from support.name_servers import NameServerProcess


def run_tool(command: str | Sequence[str], text: str | None, folder: Path) -> str:
    """Run a command, which must succeed, and return its output. A string is split as by a shell."""
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


def write_zone_file(server: "NameServerProcess", zone_text: str | None) -> str:
    """Write the zone file of a primary, by default the printed one, and return its path."""
    file = next(each for each in server.config.files if each.path.endswith(".zone"))
    Path(file.path).write_text(zone_text or file.text, encoding="utf-8")
    return file.path


def succeeds(command: str, folder: Path) -> bool:
    """Return True if a command succeeds."""
    try:
        run_tool(command, None, folder)
    except AssertionError:
        return False
    return True


class Program:
    """The operations that differ between the programs. A program has those that the tests need."""

    status_command = ""
    """The command that succeeds as soon as the printed commands can be run; empty if there are none for a
    running server.
    """
    write_command = ""
    """The command that makes a server write zone files at once, as it does once an hour; empty if it has
    none.
    """

    def configure_primary(self, site: Site) -> ServerConfig:
        """Return the configuration of a primary that `sublet zone config` prints."""
        raise NotImplementedError

    def configure_secondary(self, site: SecondarySite) -> ServerConfig:
        """Return the configuration of a secondary that `sublet zone config` prints."""
        raise NotImplementedError

    def start_command(self, server: "NameServerProcess") -> str:
        """Return the command that runs the server in the foreground."""
        raise NotImplementedError

    def change_by_hand(self, server: "NameServerProcess", changes: list[list[str]]) -> None:
        """Change the zone by hand, without an UPDATE message of the service."""
        raise NotImplementedError

    def forget(self, server: "NameServerProcess") -> None:
        """Delete the stored content of the zone. The server must be stopped."""
        raise NotImplementedError

    def load(self, server: "NameServerProcess", zone_text: str | None) -> None:
        """Store a zone, by default the first one, for the next start. The server must be stopped."""
        raise NotImplementedError


class Knot(Program):
    status_command = "knotc -c {} status"
    write_command = "knotc -c {} -b zone-flush"

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

    def load(self, server: "NameServerProcess", zone_text: str | None) -> None:
        commands = [step.command for step in server.config.steps if " zone-" in step.command]
        if zone_text is not None:
            zone = shlex.quote(server.zone)
            records = [line.replace(" IN ", " ", 1) for line in zone_text.splitlines()]
            prefix = commands[0].partition(" zone-begin ")[0]
            sets = [f"{prefix} zone-set {zone} {record}" for record in records]
            commands = [commands[0], *sets, commands[-1]]
        server.start(wait=False)
        server.wait_for_control()
        for command in commands:
            server.run(command)
        server.stop()


class Bind(Program):
    def configure_primary(self, site: Site) -> ServerConfig:
        return bind_primary(site)

    def start_command(self, server: "NameServerProcess") -> str:
        # All BINDs of a machine would share the port of rndc (953), and the tests don't need it.
        configuration = Path(server.configuration)
        if "controls" not in configuration.read_text(encoding="utf-8"):
            with configuration.open("a", encoding="utf-8") as file:
                file.write("controls { };\n")
        return f"named -g -c {shlex.quote(server.configuration)}"

    def change_by_hand(self, server: "NameServerProcess", changes: list[list[str]]) -> None:
        lines = [f"server {server.address} {server.port}", f"zone {server.zone}."]
        for verb, owner, *rest in changes:
            lines.append(" ".join(["update", verb, f"{owner.rstrip('.')}.", *rest]))
        text = "\n".join([*lines, "send", ""])
        server.run(["nsupdate", "-k", f"{server.folder}/r/session.key"], text)

    def forget(self, server: "NameServerProcess") -> None:
        for journal in (server.folder / "s").glob("*.jnl"):
            journal.unlink()

    def load(self, server: "NameServerProcess", zone_text: str | None) -> None:
        write_zone_file(server, zone_text)


class PowerDns(Program):
    def configure_primary(self, site: Site) -> ServerConfig:
        return powerdns_primary(site)

    def start_command(self, server: "NameServerProcess") -> str:
        # as in Debian's unit
        return (
            f"pdns_server --config-dir={shlex.quote(str(server.folder / 'c'))} "
            "--guardian=no --daemon=no --disable-syslog --write-pid=no"
        )

    def change_by_hand(self, server: "NameServerProcess", changes: list[list[str]]) -> None:
        for verb, owner, *rest in changes:
            name = owner.rstrip(".")
            if verb == "add":
                ttl, kind, *rdata = rest
                self._tool(
                    server, "add-record", server.zone, _inside(server, name), kind, ttl, " ".join(rdata)
                )
            else:
                self._delete(server, name, rest)
        self._tool(server, "increase-serial", server.zone)
        self._tool(server, "rectify-zone", server.zone)

    def _delete(self, server: "NameServerProcess", name: str, rest: list[str]) -> None:
        kinds = {each.type for each in server.records() if each.owner == name}
        for kind in kinds if not rest else [rest[0]]:
            kept = [each for each in server.records() if (each.owner, each.type) == (name, kind)]
            kept = [each for each in kept if len(rest) > 1 and each.rdata != " ".join(rest[1:])]
            self._tool(server, "delete-rrset", server.zone, _inside(server, name), kind)
            for each in kept:
                ttl = str(each.ttl_seconds)
                self._tool(server, "add-record", server.zone, _inside(server, name), kind, ttl, each.rdata)

    def _tool(self, server: "NameServerProcess", *words: str) -> None:
        server.run(["pdnsutil", f"--config-dir={server.folder}/c", *words])

    def forget(self, server: "NameServerProcess") -> None:
        """Do nothing, because a loaded zone replaces the old zone."""

    def load(self, server: "NameServerProcess", zone_text: str | None) -> None:
        self._tool(server, "load-zone", server.zone, write_zone_file(server, zone_text))
        self._tool(server, "rectify-zone", server.zone)


class Nsd(Program):
    write_command = "nsd-control -c {} write"

    def configure_secondary(self, site: SecondarySite) -> ServerConfig:
        return nsd_secondary(site)

    def start_command(self, server: "NameServerProcess") -> str:
        return f"nsd -d -c {shlex.quote(server.configuration)}"


def _inside(server: "NameServerProcess", name: str) -> str:
    """Return a name in pdnsutil's form: the labels before the zone."""
    return "@" if name == server.zone else name.removesuffix(f".{server.zone}")


PRIMARIES: dict[str, Program] = {"knot": Knot(), "bind": Bind(), "powerdns": PowerDns()}
SECONDARIES: dict[str, Program] = {"nsd": Nsd(), "knot": Knot()}
