"""Where addresses and tokens are kept: a profile for each registry or account.

Addresses are in `profiles.json` in the user's configuration folder. A token is in the keyring if the package
`keyring` is installed and works, and otherwise in that file too, which only its owner can read.
"""

import json
import os
import sys
from collections.abc import Generator, Mapping
from contextlib import contextmanager, suppress
from importlib import import_module
from pathlib import Path
from typing import Any

import click
import msgspec

from sublet_client._settings import base_url_of

SERVICE = "subletctl"
DEFAULT = "default"
Profiles = dict[str, dict[str, str]]
"""Address and token by the name of the profile."""


def path_of_profiles() -> Path:
    """Return the path of the file, also if it doesn't exist."""
    return Path(click.get_app_dir("subletctl")) / "profiles.json"


def read_profiles() -> Profiles:
    """Return all profiles by name, without the tokens in the keyring.

    Raises:
        ValueError: the file isn't one of profiles.
    """
    try:
        text = path_of_profiles().read_bytes()
    except FileNotFoundError:
        return {}
    try:
        return msgspec.json.decode(text, type=Profiles)
    except msgspec.DecodeError as error:
        sentence = f"{path_of_profiles()} has no profiles. Delete it, and run subletctl login."
        raise ValueError(sentence) from error


def find_profile(name: str, environment: Mapping[str, str] = os.environ) -> tuple[str | None, str | None]:
    """Return address and token of a profile.

    `SUBLET_URL` and `SUBLET_TOKEN` come first; a foreign address gets no stored token.

    Raises:
        ValueError: `SUBLET_URL` is no address.
    """
    stored = read_profiles().get(name, {})
    url = stored.get("url")
    if environment.get("SUBLET_URL"):
        url = base_url_of(environment["SUBLET_URL"])
    token = environment.get("SUBLET_TOKEN")
    if not token and url is not None and url == stored.get("url"):
        token = stored.get("token") or _in_keyring(name)
    return url, token or None


def save_profile(name: str, url: str, token: str) -> str:
    """Store a profile, and return where its token is: `keyring`, or the path of the file."""
    in_keyring = _put_in_keyring(name, token)
    with changed() as profiles:
        profiles[name] = {"url": url} if in_keyring else {"url": url, "token": token}
    return "the keyring" if in_keyring else str(path_of_profiles())


def prove_writable() -> None:
    """Store the profiles as they are, before the registry replaces or issues a token that would be lost
    otherwise.

    Raises:
        OSError: the file can't be written.
        ValueError: as `read_profiles`.
    """
    with changed():
        pass


def delete_profile(name: str) -> bool:
    """Delete a profile with its token; False if there is none."""
    with changed() as profiles:
        was_there = profiles.pop(name, None) is not None
    if _in_keyring(name) is not None:
        _keyring().delete_password(SERVICE, name)
    return was_there


@contextmanager
def changed() -> Generator[Profiles, None, None]:
    """Give the profiles, and replace the file with what became of them, one process after the other.

    The file is never readable by others.
    """
    path = path_of_profiles()
    path.parent.mkdir(parents=True, exist_ok=True, mode=0o700)
    with _locked(path.parent):
        profiles = read_profiles()
        yield profiles
        new = path.with_name(f"{path.name}.{os.getpid()}")
        opened = os.open(new, os.O_WRONLY | os.O_CREAT | os.O_TRUNC, 0o600)
        with os.fdopen(opened, "w", encoding="utf-8") as file:
            json.dump(profiles, file, indent=2)
        new.replace(path)


@contextmanager
def _locked(folder: Path) -> Generator[None, None, None]:
    """Hold the lock of a folder, where the system has such locks: not on Windows."""
    if sys.platform == "win32":
        yield
    else:
        import fcntl  # noqa: PLC0415 - Windows has none

        opened = os.open(folder, os.O_RDONLY)
        try:
            with suppress(OSError):  # some network file systems have none either
                fcntl.flock(opened, fcntl.LOCK_EX)
            yield
        finally:
            os.close(opened)


def _keyring() -> Any:
    return import_module("keyring")


def _in_keyring(name: str) -> str | None:
    try:
        found: str | None = _keyring().get_password(SERVICE, name)
    except Exception:  # noqa: BLE001 - not installed, or no backend; each backend has errors of its own
        return None
    return found


def _put_in_keyring(name: str, token: str) -> bool:
    try:
        _keyring().set_password(SERVICE, name, token)
    except Exception:  # noqa: BLE001 - as above
        return False
    return _in_keyring(name) == token
