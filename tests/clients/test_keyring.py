"""`subletctl` stores tokens in a real keyring: GNOME's, over D-Bus."""

import json
import subprocess
import sys
from pathlib import Path

from support.running_service import RunningService
from support.secret_service import secret_service

SUBLETCTL = ("-m", "sublet_client.cli.main")
READ = "import keyring; print(keyring.get_password('subletctl', 'default'))"


def test_a_token_is_stored_in_the_keyring(service: RunningService, tmp_path: Path) -> None:
    who = service.add_user()
    with secret_service(tmp_path) as environment:
        environment["XDG_CONFIG_HOME"] = str(tmp_path / "home")

        def run(*words: str) -> str:
            command = [sys.executable, *words]
            done = subprocess.run(
                command, env=environment, input=who.token, capture_output=True, text=True, check=True
            )
            return done.stdout + done.stderr

        assert "The token is in the keyring." in run(*SUBLETCTL, "login", service.base_url, "--token")
        stored = json.loads((tmp_path / "home/subletctl/profiles.json").read_text())
        assert stored == {"default": {"url": service.base_url}}
        assert who.email in run(*SUBLETCTL, "whoami")
        run(*SUBLETCTL, "logout")
        assert run("-c", READ) == "None\n"
