"""`/readyz` and `sublet status` on PostgreSQL: which server is the primary, and whether a commit waits for a
standby.
"""

import tempfile
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import psycopg
import pytest

from long.hosts.standby import postgresql_pair
from support.postgresql import fresh_database
from support.running_service import RunningService, initialised_postgresql, running_service
from support.waiting import wait_until

pytestmark = pytest.mark.slow


@pytest.fixture
def short_folder() -> Iterator[Path]:
    """A folder that PostgreSQL's user may enter."""
    with tempfile.TemporaryDirectory(prefix="pair-") as folder:
        yield Path(folder)


def ready(service: RunningService) -> dict[str, Any]:
    """Return the part of `/readyz` about PostgreSQL."""
    answer = service.client.get(service.origin + "/readyz")
    assert answer.status_code == 200
    return dict(answer.json()["postgresql"])


def shown(service: RunningService) -> dict[str, Any]:
    """Return the part of `/readyz` about PostgreSQL. `sublet status` must report the same."""
    found = ready(service)
    assert service.operator("status")["postgresql"] == found
    return found


def test_a_server_without_a_standby(postgresql_server: str) -> None:
    with (
        fresh_database(postgresql_server, like=initialised_postgresql()) as url,
        running_service(url, database_may_lose_writes=True) as service,
    ):
        host_and_port = url.rpartition("@")[2].partition("/")[0]
        assert shown(service) == {"primary": host_and_port, "commits_wait": False, "standbys": []}


@pytest.mark.whole
def test_a_synchronous_standby_that_is_connected_then_away(short_folder: Path) -> None:
    with postgresql_pair(short_folder) as pair, running_service(pair.address) as service:
        primary = f"127.0.0.1:{pair.primary.port}"
        assert shown(service) == {"primary": primary, "commits_wait": True, "standbys": ["standby"]}
        with psycopg.connect(pair.address) as connection:
            connection.execute("CREATE ROLE olga LOGIN; GRANT SELECT ON ALL TABLES IN SCHEMA public TO olga")
        service.environment["SUBLET_DATABASE_URL"] = pair.address.replace("sublet@", "olga@")
        assert service.operator("status")["postgresql"] == {
            "primary": primary,
            "commits_wait": True,
            "standbys": None,
            "hint": 'As a superuser run: GRANT pg_read_all_stats TO "olga"',
        }
        del service.environment["SUBLET_DATABASE_URL"]
        pair.standby.kill()
        wait_until(lambda: not ready(service)["standbys"])
        assert shown(service) == {"primary": primary, "commits_wait": True, "standbys": []}
        pair.standby.start()  # the service's last writes wait for it
