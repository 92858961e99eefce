"""The check of a whole zone: the priority of its program, and a zone that leaves its primary during the
check.
"""

import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from sublet.db import Database, utc_now
from sublet.dns.types import Primary
from sublet.errors import Conflict
from sublet.platform_domains.platform_domain import add_platform_domain, edit_platform_domain
from sublet.primaries import check_process
from sublet.primaries.check_process import CheckRequest, check_on_primary
from sublet.primaries.drift_repair import DriftRepair
from sublet.primaries.transfer import ZoneTransfer, transfer_zone
from sublet.subdomains.end_platform_domain import remove_platform_domain
from sublet.subdomains.store import list_unreleased_names
from support.name_servers import fresh_key, primary
from support.operator_registry import OPERATOR, Registry, empty_registry
from support.waiting import wait_until

LOWEST = 19
ZONE = "example.test"


def test_the_check_lowers_its_own_priority() -> None:
    wanted = min(os.nice(0) + 10, LOWEST)
    checking = subprocess.Popen(
        [sys.executable, "-m", "sublet.primaries.check_process"], stdin=subprocess.PIPE
    )
    try:
        wait_until(lambda: os.getpriority(os.PRIO_PROCESS, checking.pid) == wanted)
    finally:
        checking.kill()
        checking.communicate()


def registry_with_zone(folder: Path) -> Registry:
    """Return a registry with one platform domain, on the primary `main` and closed."""
    registry = empty_registry(folder)
    settings = {"primary": "main", "registration_open": False}
    registry.do(add_platform_domain, ZONE, settings, names_held=list_unreleased_names)
    return registry


def test_a_zone_that_moved_before_the_transfer_is_a_conflict(tmp_path: Path) -> None:
    registry = registry_with_zone(tmp_path)
    former = Primary("former", "127.0.0.1", 1, fresh_key("key"))

    async def check(db: Database) -> None:
        keeper = DriftRepair(db, registry.url, lambda _: former, holder="a")
        await keeper._run(CheckRequest(registry.url, 1, former, utc_now()))

    with pytest.raises(Conflict, match="has moved to another server"):
        registry.use(check)


@pytest.mark.parametrize("change", ["removed", "moved"])
def test_a_zone_that_leaves_its_primary_during_the_transfer_is_a_conflict(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, change: str
) -> None:
    registry = registry_with_zone(tmp_path)

    async def check(db: Database) -> None:
        async def transfer_and_change(*words: Any, **options: Any) -> ZoneTransfer:
            found = await transfer_zone(*words, **options)
            if change == "removed":
                await db.write(remove_platform_domain, OPERATOR, ZONE)
            else:
                await db.write(edit_platform_domain, OPERATOR, ZONE, {"primary": "other"})
            return found

        monkeypatch.setattr(check_process, "transfer_zone", transfer_and_change)
        await check_on_primary(db, 1, server.as_primary("main"))

    with (
        primary("knot", tmp_path, ZONE) as server,
        pytest.raises(Conflict, match="has moved to another server"),
    ):
        registry.use(check)
