"""What a generated configuration is made of, and what it is made from."""

from dataclasses import dataclass
from hashlib import sha256
from pathlib import PurePosixPath

from sublet.dns.types import Apex, Secondary, TsigKey

REFRESH_SECONDS = 5
"""How long a secondary waits at most until it asks its primary for the serial by itself."""


@dataclass(frozen=True, slots=True)
class Places:
    """The directories of a server: its configuration, its state (zones, journals, keys), its sockets and process ids."""

    configuration: str
    state: str
    run: str


@dataclass(frozen=True, slots=True)
class Site:
    """What a primary is configured from.

    `key` is the one that may update (and transfer, for the check of the zone). `transfer_key` is the secondaries': they
    may transfer and nothing else. `address` and `port` are where the server listens, and `address` is what the secondaries see
    NOTIFY come from, so it is one address, not "any". The zone is `apex.zone`.
    """

    apex: Apex
    key: TsigKey
    transfer_key: TsigKey
    address: str
    port: int
    places: Places
    secondaries: tuple[Secondary, ...] = ()


@dataclass(frozen=True, slots=True)
class SecondarySite:
    """What a secondary is configured from: where it listens, its primary, and the key for NOTIFY and transfers.

    `user` is whom the server becomes when it is started as root; empty: it stays who it is.
    """

    zone: str
    transfer_key: TsigKey
    address: str
    port: int
    primary_address: str
    primary_port: int
    places: Places
    user: str = ""


@dataclass(frozen=True, slots=True)
class ConfigFile:
    """One file: where it goes, its text, whom it belongs to ("user:group"), and whether its text has a secret."""

    path: str
    text: str
    owner: str
    is_secret: bool = False

    @property
    def mode(self) -> str:
        """The permissions in octal: a secret is not for everyone."""
        return "0640" if self.is_secret else "0644"

    @property
    def name(self) -> str:
        """The last part of the path; no two files of a configuration share it."""
        return PurePosixPath(self.path).name


@dataclass(frozen=True, slots=True)
class Step:
    """A command to run, with a word on it.

    `user` runs it, empty: root. `of_machine` tells that it is about the machine (packages, files, services) rather than the
    server, so whoever starts the server differently does that part differently.
    """

    command: str
    why: str
    user: str = ""
    of_machine: bool = False

    @property
    def line(self) -> str:
        """What root types."""
        return f"runuser -u {self.user} -- {self.command}" if self.user else self.command


@dataclass(frozen=True, slots=True)
class ServerConfig:
    """All files, and the commands that make a fresh machine serve from them, in order."""

    files: tuple[ConfigFile, ...]
    steps: tuple[Step, ...]


def install_steps(packages: str, files: tuple[ConfigFile, ...]) -> tuple[Step, ...]:
    """Return what comes first with every server: its packages, and the files at their places."""
    install = Step(f"apt-get install --no-install-recommends {packages}", "The server.", of_machine=True)
    return (install, *(_install(each) for each in files))


def _install(file: ConfigFile) -> Step:
    user, _, group = file.owner.partition(":")
    command = f"install -D -o {user} -g {group} -m {file.mode} {file.name} {file.path}"
    return Step(command, "With the secret." if file.is_secret else "From this folder.", of_machine=True)


def key_file_name(zone: str) -> str:
    """Return the name of the file that has a zone's keys, in the server's own syntax."""
    return f"sublet-{zone}.keys"


def key_name(zone: str) -> str:
    """Return the name of our key for a zone: one label, so that it needs no dots anywhere, of 54 octets at most.

    `-transfer` is put behind it for the secondaries' key; a label has 63 octets.
    """
    name = f"sublet-{zone.replace('.', '-')}"
    if len(name) <= 54:
        return name
    return f"{name[:45]}-{sha256(zone.encode()).hexdigest()[:8]}"
