"""The clients on top of the Python client: what they use, what their pages print, and their packages."""

import json
import re
from pathlib import Path

import pytest
import supply_chain

from sublet.accounts.model import ROLES
from sublet.platform_domains.model import MODES
from sublet.restrictions import SCOPES
from sublet_client import spelling
from sublet_terraform import organizations, subdomain
from sublet_terraform.provider import SubletProvider
from support.ansible import Ansible
from support.running_service import RunningService
from support.terraform import Terraform

ROOT = Path(__file__).resolve().parents[2]
PERMISSIVE = {"Apache-2.0", "BSD-2-Clause", "BSD-3-Clause", "ISC", "MIT", "MIT-0", "PSF-2.0"}

ELSEWHERE = {"httpx2-jsfetch", "pywin32"}
"""Packages for browsers and for Windows alone, so they aren't installed."""


def _readme(client: str) -> str:
    return (ROOT / "clients" / client / "README.md").read_text(encoding="utf-8")


def _blocks(client: str, language: str) -> list[str]:
    """Return the blocks of a README in a language."""
    return re.findall(rf"^```{language}\n(.*?)^```$", _readme(client), re.DOTALL | re.MULTILINE)


@pytest.mark.parametrize("client", ["python", "terraform", "mcp"])
def test_locks_have_hashes_and_permissive_licences(client: str) -> None:
    path = ROOT / "clients" / client / "requirements.lock"
    assert "://" not in path.read_text(encoding="utf-8")
    for each in supply_chain.read_lock(path):
        assert each.hashes
        if each.name not in ELSEWHERE:
            assert set(re.split(r" (?:OR|AND) ", supply_chain.licence_of(each))) <= PERMISSIVE, each.name


def test_the_readme_of_terraform_names_all_attributes() -> None:
    provider = SubletProvider()
    kinds = [*provider.get_resources(), *provider.get_data_sources()]
    rows = re.findall(r"^\| `(sublet_\w+)` (\|.*)$", _readme("terraform"), re.MULTILINE)
    assert [name for name, _ in rows] == [f"sublet_{each.get_name()}" for each in kinds]
    for kind, (_, row) in zip(kinds, rows, strict=True):
        assert re.findall(r"`(\w+)`", row) == [each.name for each in kind.get_schema().attributes]


def test_the_clients_know_the_values_that_the_registry_accepts() -> None:
    assert (spelling.SCOPES, subdomain.MODES, organizations.ROLES) == (SCOPES, MODES, ROLES)


def test_the_examples_of_terraform_work(service: RunningService, tmp_path: Path) -> None:
    service.add_domain("example.net", "--records", "on")
    who = service.add_user(credit_count=10, free_quota="20")
    # The test of the mirror tries the settings and the name that can't be destroyed.
    examples = [each for each in _blocks("terraform", "hcl")[1:] if "prevent_destroy" not in each]
    terraform = Terraform(tmp_path, service.base_url, who.token)
    for number, example in enumerate(examples):
        (tmp_path / f"{number}.tf").write_text(example)
    printed = terraform.apply()
    assert "1 imported, 12 added, 1 changed" in printed
    assert "Less than 50 credits" in printed
    assert service.delegation("blog.example.net") == {"ns1.provider.example", "ns2.provider.example"}
    rotated = terraform.state("sublet_token.own")["secret"]
    assert service.call(rotated, "GET", "/me").json()["token"]["name"] == "laptop"

    (signed,) = (each for each in tmp_path.glob("*.tf") if "# in use" in each.read_text())
    signed.write_text(re.sub(r".*# in use\n", "", signed.read_text()))
    assert "0 added, 1 changed" in terraform.apply()
    records = service.call(who, "GET", "/subdomains/signed.example.net").json()["subdomain"]["ds_records"]
    assert [each["key_tag"] for each in records] == [40221]


@pytest.mark.whole
def test_the_quick_start_of_ansible_works(service: RunningService, tmp_path: Path) -> None:
    service.add_domain("example.net")
    who = service.add_user()
    ansible = Ansible(tmp_path, service.base_url, who.token)
    (play,) = _blocks("ansible", "yaml")
    (tmp_path / "names.yml").write_text(play)
    (tmp_path / "clients").symlink_to(ROOT / "clients")
    (commands,) = _blocks("ansible", "sh")
    for line in commands.splitlines():
        if line.startswith("ansible"):
            words = line.split()
            done = ansible.run(words[0], *words[1:], ANSIBLE_COLLECTIONS_PATH=str(tmp_path / "installed"))
            assert done.returncode == 0, done.stdout + done.stderr
    assert service.delegation("blog.example.net") == {"ns1.provider.example", "ns2.provider.example"}


@pytest.mark.whole
def test_the_documentation_of_the_modules_is_complete(tmp_path: Path) -> None:
    ansible = Ansible(tmp_path, "https://names.example.net/api/v1", "token")
    modules = sorted(each.stem for each in (ROOT / "clients/ansible/plugins/modules").glob("*.py"))
    done = ansible.run("ansible-doc", "--json", *(f"sublet.registry.{each}" for each in modules))
    shown = json.loads(done.stdout)
    for module in modules:
        options = shown[f"sublet.registry.{module}"]["doc"]["options"]
        source = (ROOT / f"clients/ansible/plugins/modules/{module}.py").read_text(encoding="utf-8")
        taken = set(re.findall(r'^        "(\w+)": \{"type"', source, re.MULTILINE))
        taken |= set(re.findall(r'registry\.run\(\{"(\w+)"', source))
        within = {name for each in options.values() for name in each.get("suboptions", ())}
        assert {*options, *within} == taken | {"url", "token"}, module
