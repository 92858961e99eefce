"""Containerfile and compose.yaml: no engine runs here, so what they name is held against what there is."""

import re
import shlex
from typing import Any
from urllib.parse import urlsplit

import yaml

from sublet.config import Settings, load_settings, parse_listen
from support.deploy_files import DEPLOY, parse_command

ROOT = DEPLOY.parent
CONTAINER = DEPLOY / "container"
PASSWORD = "made-up"


def composed() -> dict[str, Any]:
    """Return the services, with the password in them that an operator would give."""
    text = (CONTAINER / "compose.yaml").read_text(encoding="utf-8")
    text, count = re.subn(r"\$\{DATABASE_PASSWORD:\?[^}]+\}", PASSWORD, text)
    assert count == 2
    assert "${" not in text
    loaded = yaml.safe_load(text)
    assert isinstance(loaded, dict)
    return loaded


def ours() -> dict[str, dict[str, Any]]:
    return {name: each for name, each in composed()["services"].items() if each["image"] == "sublet"}


def settings_of(service: dict[str, Any]) -> Settings:
    return load_settings(CONTAINER / "sublet.toml", service["environment"])


def test_each_service_has_an_existing_command_and_valid_settings() -> None:
    found = ours()
    assert set(found) == {"migrate", "api-1", "api-2", "worker-1", "worker-2"}
    for service in found.values():
        parse_command(service["command"])
        address = urlsplit(settings_of(service).database_url)
        assert (address.scheme, address.hostname, address.password) == ("postgresql", "postgresql", PASSWORD)
        given = composed()["services"]["postgresql"]["environment"]
        assert address.username == given["POSTGRES_USER"]
        assert address.path.lstrip("/") == given["POSTGRES_DB"]
        assert given["POSTGRES_PASSWORD"] == PASSWORD


def test_our_services_have_few_rights() -> None:
    for service in ours().values():
        assert service["read_only"] is True
        assert service["cap_drop"] == ["ALL"]
        assert service["security_opt"] == ["no-new-privileges:true"]
        assert "privileged" not in service
        assert "ports" not in service


def test_networks_secrets_and_files_of_services_exist() -> None:
    whole = composed()
    for name, service in whole["services"].items():
        for other in service.get("depends_on", {}):
            assert other in whole["services"], (name, other)
        assert set(service["networks"]) <= set(whole["networks"])
        assert set(service.get("secrets", [])) <= set(whole["secrets"])
        for volume in service.get("volumes", []):
            source = volume.split(":")[0]
            assert source.startswith(("./", "../")) or source in whole["volumes"], volume
            assert not source.startswith("../") or (CONTAINER / source).is_file(), volume


def test_health_checks_use_the_configured_ports() -> None:
    for name, service in ours().items():
        if name == "migrate":
            continue
        settings = settings_of(service)
        listen = settings.http_listen if name.startswith("api") else settings.worker_status_listen
        _, port = parse_listen("", listen)
        assert f"http://127.0.0.1:{port}/readyz" in service["healthcheck"]["test"][-1]
        compile(service["healthcheck"]["test"][-1], name, "exec")


def test_addresses_in_the_settings_match_the_services() -> None:
    services = composed()["services"]
    settings = settings_of(services["api-1"])
    assert settings.trusted_proxies == services["proxy"]["networks"]["front"]["ipv4_address"]
    (primary,) = settings.primaries
    assert primary.address == services["knot"]["networks"]["inside"]["ipv4_address"]
    assert primary.key_file == "/run/secrets/knot_key"
    for service in services.values():
        if service["image"] == "sublet":
            # The key changes the zone, which is the worker's alone.
            assert ("knot_key" in service.get("secrets", [])) == (service["command"] == ["worker"])
    upstream = (CONTAINER / "sublet-upstream.conf").read_text(encoding="utf-8")
    for name in ("api-1", "api-2"):
        assert f"server {name}:{parse_listen('', settings.http_listen)[1]} " in upstream


def test_the_files_that_the_image_copies_exist() -> None:
    text = (CONTAINER / "Containerfile").read_text(encoding="utf-8").replace("\\\n", " ")
    kept = [line[1:] for line in _lines("Containerfile.dockerignore") if line.startswith("!")]
    lines = [shlex.split(line) for line in text.splitlines() if line and not line.startswith("#")]
    for words in lines:
        if words[0] == "COPY" and not words[1].startswith("--from"):
            for source in words[1:-1]:
                assert (ROOT / source).exists(), source
                assert source in kept, source
        if words[0] == "RUN" and "pip install" in " ".join(words):
            assert "--require-hashes" in words or "--no-index" in words
    assert ["USER", "10001:10001"] in lines
    # In exec form, so that signals reach it.
    assert 'ENTRYPOINT ["/opt/sublet/bin/sublet"]' in text
    (command,) = re.findall(r"^CMD (.*)$", text, re.MULTILINE)
    parse_command(yaml.safe_load(command))


def _lines(name: str) -> list[str]:
    return (CONTAINER / name).read_text(encoding="utf-8").splitlines()


def test_no_image_names_a_registry_host() -> None:
    images = {service["image"] for service in composed()["services"].values()}
    images |= set(re.findall(r"^ARG PYTHON=(\S+)$", "\n".join(_lines("Containerfile")), re.MULTILINE))
    assert len(images) == 5
    for image in images:
        assert not re.search(r"[.:].*/", image), image
