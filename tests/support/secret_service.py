"""A keyring as on a desktop of Linux: GNOME's, unlocked, on a D-Bus of its own."""

import os
import subprocess
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path

import secretstorage
from jeepney.io.blocking import open_dbus_connection

from support.waiting import wait_until

BUS = """
<busconfig>
  <type>session</type>
  <listen>unix:path={}</listen>
  <auth>EXTERNAL</auth>
  <policy context="default">
    <allow send_destination="*" eavesdrop="true"/>
    <allow eavesdrop="true"/>
    <allow own="*"/>
  </policy>
</busconfig>
"""
"""As the session bus of Debian, but it starts no services."""


@contextmanager
def secret_service(folder: Path) -> Iterator[dict[str, str]]:
    """Run the keyring in a folder, and give the environment of the programs that use it."""
    settings, bus = folder / "bus.conf", folder / "bus"
    settings.write_text(BUS.format(bus))
    environment = {each: value for each, value in os.environ.items() if each != "PYTHON_KEYRING_BACKEND"}
    environment |= {
        "DBUS_SESSION_BUS_ADDRESS": f"unix:path={bus}",
        "XDG_DATA_HOME": str(folder),
        "XDG_RUNTIME_DIR": str(folder),
    }
    password = folder / "password"
    password.write_text("of the keyring")
    with ExitStack() as started:
        log = started.enter_context((folder / "keyring.log").open("wb"))

        def start(*words: str) -> None:
            with password.open("rb") as file:
                process = subprocess.Popen(words, env=environment, stdin=file, stdout=log, stderr=log)
            started.callback(process.wait, 20)
            started.callback(process.kill)

        start("dbus-daemon", f"--config-file={settings}", "--nofork")
        wait_until(bus.exists)
        start("gnome-keyring-daemon", "--foreground", "--unlock", "--components=secrets")
        with open_dbus_connection(environment["DBUS_SESSION_BUS_ADDRESS"]) as connection:
            wait_until(lambda: secretstorage.check_service_availability(connection))
        yield environment
