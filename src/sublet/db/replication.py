"""Find the PostgreSQL server of a connection, and its synchronous standbys."""

from typing import Any

import msgspec
from sqlalchemy import text

from sublet.db.model import Tx


class Replication(msgspec.Struct, frozen=True):
    """A connection's server, and its synchronous standbys.

    `primary` is the server's host and port in `database_url`. `standbys` are the names of the connected
    standbys that a commit may wait for; None if the connection's `role` may not see standbys.
    """

    primary: str
    commits_wait: bool
    standbys: tuple[str, ...] | None
    role: str

    def members(self) -> dict[str, Any]:
        """Return the members of `postgresql` in `/readyz`.

        `hint` is one of them if the role may not see the standbys.
        """
        shown = {"primary": self.primary, "commits_wait": self.commits_wait, "standbys": self.standbys}
        return shown if self.standbys is not None else {**shown, "hint": self.hint()}

    def hint(self) -> str:
        """Return the grant that lets the role see the standbys."""
        return f'As a superuser run: GRANT pg_read_all_stats TO "{self.role}"'


# Without `pg_read_all_stats`, `sync_state` is NULL. `current_setting` of these two settings needs no
# privilege.
_REPLICATION = text("""
SELECT current_setting('synchronous_commit') NOT IN ('off', 'local')
    AND current_setting('synchronous_standby_names') <> '',
    pg_has_role('pg_read_all_stats', 'USAGE'),
    ARRAY(SELECT application_name FROM pg_stat_replication WHERE sync_state IN ('sync', 'quorum') ORDER BY 1),
    current_user::text
""")


def find_replication(tx: Tx) -> Replication | None:
    """Return the server of a transaction's connection and its standbys; None on SQLite."""
    if tx.connection.dialect.name == "sqlite":
        return None
    commits_wait, may_see, standbys, role = tx.connection.execute(_REPLICATION).one()
    driver: Any = tx.connection.connection.driver_connection
    host, port = driver.info.host, driver.info.port
    return Replication(
        primary=f"[{host}]:{port}" if ":" in host else f"{host}:{port}",
        commits_wait=commits_wait,
        standbys=tuple(standbys) if may_see else None,
        role=role,
    )
