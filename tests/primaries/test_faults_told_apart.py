"""The faults of a primary are distinguished: by a cause for the operator and a sentence for the user;
publishing recovers without help. The causes of single answers: tests/dns/test_primary.py.
"""

import time
from collections.abc import Iterator
from contextlib import AbstractContextManager, contextmanager, nullcontext
from pathlib import Path
from types import SimpleNamespace

import dns.message
import pytest

from sublet.primaries import primary_zone
from sublet.primaries.primary import Fence, PrimaryFault
from sublet.primaries.publisher import STALE_MAX
from sublet.primaries.update import fence_name, new_fence
from support.free_ports import free_address
from support.name_servers import fresh_key
from support.primary_faults import changed, fails_for, healed, in_database, no_rights, register
from support.repetitions import share
from support.running_service import Registrant
from support.service_on_primary import ZONE, ServiceOn
from support.waiting import wait_until

pytestmark = pytest.mark.slow


@contextmanager
def key_file(on: ServiceOn, text: str) -> Iterator[None]:
    path = Path(on.service.settings.primaries[0].key_file)
    good = path.read_text(encoding="ascii")
    path.write_text(text, encoding="ascii")
    yield
    path.write_text(good, encoding="ascii")


def test_a_wrong_secret(on: ServiceOn, ada: Registrant) -> None:
    with key_file(on, fresh_key("x").secret.reveal()):
        fqdn = fails_for(on, ada, "key")
    healed(on, ada, fqdn)


@pytest.mark.whole
def test_a_malformed_secret(on: ServiceOn, ada: Registrant) -> None:
    with key_file(on, "not base64"):
        fqdn = fails_for(on, ada, "settings")
    healed(on, ada, fqdn)


@pytest.mark.whole
def test_an_unknown_key(on: ServiceOn, ada: Registrant) -> None:
    name = on.primary.key.name
    if on.primary.kind == "powerdns":
        rename = "UPDATE tsigkeys SET name = '{}' WHERE name = '{}'"
        fault = in_database(on.primary, rename.format("other", name), rename.format(name, "other"))
    else:
        fault = changed(on.primary, (name, "other"), all_files=True)
    with fault:
        fqdn = fails_for(on, ada, "key")
    healed(on, ada, fqdn)


@pytest.mark.whole
def test_a_key_with_another_algorithm(on: ServiceOn, ada: Registrant) -> None:
    if on.primary.kind == "powerdns":
        switch = "UPDATE tsigkeys SET algorithm = '{}'"
        fault = in_database(on.primary, switch.format("hmac-sha512"), switch.format("hmac-sha256"))
    else:
        fault = changed(on.primary, ("hmac-sha256", "hmac-sha512"), all_files=True)
    with fault:
        fqdn = fails_for(on, ada, "key")
    healed(on, ada, fqdn)


@pytest.mark.parametrize("ahead_seconds", share([400], whole=[-3600, 400]))
def test_a_wrong_clock(
    on: ServiceOn, ada: Registrant, ahead_seconds: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The test moves the clock of our signatures, which for the server equals a wrong clock of its own."""
    clock = SimpleNamespace(time=lambda: time.time() + ahead_seconds)
    with monkeypatch.context() as patched:
        patched.setattr(dns.message, "time", clock)
        fqdn = fails_for(on, ada, "clock")
        detail = str(on.state().problem_detail)
    if on.primary.kind != "powerdns":  # it doesn't send its time
        direction = "behind" if ahead_seconds > 0 else "ahead of"
        assert detail.endswith(f" s {direction} this host's")
        assert abs(int(detail.partition(" s ")[0].split()[-1]) - abs(ahead_seconds)) < 60
    healed(on, ada, fqdn)


def test_a_key_without_the_right_to_update(on: ServiceOn, ada: Registrant) -> None:
    with changed(on.primary, no_rights(on.primary)):
        fqdn = fails_for(on, ada, "no_updates" if on.primary.kind == "powerdns" else "refused")
    healed(on, ada, fqdn)


@pytest.mark.whole
def test_a_zone_frozen_by_the_operator(on: ServiceOn, ada: Registrant) -> None:
    server = on.primary
    if server.kind == "powerdns":
        pytest.skip("it has no such thing")
    opened: AbstractContextManager[None] = nullcontext()
    control = ["knotc", "-b", "-s", f"{server.folder}/r/knot.sock", "zone-{}", ZONE]
    if server.kind == "bind":
        port, key = free_address()[1], fresh_key("rndc")
        key_lines = f'key rndc {{ algorithm {key.algorithm}; secret "{key.secret.reveal()}"; }};\n'
        inet = f"inet 127.0.0.1 port {port} allow {{ 127.0.0.1; }} keys {{ rndc; }};"
        configuration = server.folder / "rndc.conf"
        configuration.write_text(key_lines + "options { default-key rndc; };\n", encoding="ascii")
        opened = changed(server, ("controls { };", f"{key_lines}controls {{ {inet} }};"))
        control = ["rndc", "-c", str(configuration), "-s", "127.0.0.1", "-p", str(port), "{}", ZONE]
    with opened:
        wait_until(server.is_ready)  # a zone that is not loaded yet can't be frozen
        server.run([word.format("freeze") for word in control])
        fqdn = fails_for(on, ada, "no_updates")
        server.run([word.format("thaw") for word in control])
        healed(on, ada, fqdn)


@pytest.mark.whole
def test_a_missing_zone(on: ServiceOn, ada: Registrant) -> None:
    server = on.primary
    if server.kind == "powerdns":
        rename = "UPDATE domains SET name = '{}'"
        fault = in_database(server, rename.format("other.test"), rename.format(ZONE))
    else:
        text = Path(server.configuration).read_text(encoding="utf-8")
        begins = text.index("\nzone")
        ends = text.index("\n};", begins) + 3 if server.kind == "bind" else len(text)
        fault = changed(server, (text[begins:ends], ""))
    with fault:
        fqdn = fails_for(on, ada, "zone")
    healed(on, ada, fqdn)


@pytest.mark.whole
def test_a_server_that_does_not_answer(
    on: ServiceOn, ada: Registrant, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(primary_zone, "TIMEOUT_SECONDS", 1.0)
    on.primary.freeze()
    fqdn = fails_for(on, ada, "no_answer")
    on.primary.thaw()
    healed(on, ada, fqdn)


def test_a_stopped_server(on: ServiceOn, ada: Registrant) -> None:
    on.primary.kill()
    fqdn = fails_for(on, ada, "unreachable")
    on.primary.start()
    healed(on, ada, fqdn)


@pytest.mark.whole
def test_a_secondary_configured_as_primary(on: ServiceOn, ada: Registrant) -> None:
    server = on.primary
    if server.kind != "bind":
        pytest.skip(
            "to Knot it is a right that is missing, to PowerDNS a failure: see docs/operating/trouble.md"
        )
    text = Path(server.configuration).read_text(encoding="utf-8")
    policy = text[
        text.index("    update-policy {") : text.index("    };\n", text.index("    update-policy {")) + 7
    ]
    secondary = "type secondary; masterfile-format text; primaries { 127.0.0.1 port 1; };"
    changes = [("type primary;", secondary), (policy, ""), ("    serial-update-method increment;\n", "")]
    changes += [('    dnssec-policy "sublet";\n', ""), ("    inline-signing no;\n", "")]
    changes.append(("    check-integrity no;\n", ""))
    with changed(server, *changes):
        fqdn = fails_for(on, ada, "no_updates")
    healed(on, ada, fqdn)


@pytest.mark.whole
def test_a_fence_that_differs_at_each_read(
    on: ServiceOn, ada: Registrant, monkeypatch: pytest.MonkeyPatch
) -> None:
    """As if two independent servers shared one address."""
    looks = []

    async def look(*_: object, **__: object) -> Fence:
        looks.append(new_fence())
        return Fence(looks[-1], len(looks))

    async def refuse(*_: object, **__: object) -> None:
        raise PrimaryFault("fence", "main answers NXRRSET", certain=True)

    with monkeypatch.context() as patched:
        patched.setattr(primary_zone, "read_fence", look)
        patched.setattr(primary_zone, "send_update", refuse)
        fqdn = fails_for(on, ada, "fence")
        assert len(looks) <= 2 * STALE_MAX * (on.state().attempts + 1)
    healed(on, ada, fqdn)


def test_a_fence_changed_by_hand(on: ServiceOn, ada: Registrant) -> None:
    healed(on, ada, register(on, ada))
    on.primary.nsupdate([f'add {fence_name(ZONE)}. 60 TXT "by hand"'])
    fqdn = fails_for(on, ada, "fence")
    assert on.state().attempts < 5
    on.primary.nsupdate([f'delete {fence_name(ZONE)}. TXT "by hand"'])
    healed(on, ada, fqdn)
