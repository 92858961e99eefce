"""Add the index of nameservers, which finds the names that depend on a host below another name.

Revision ID: 0005
Revises: 0004
"""

import sqlalchemy as sa
from alembic import op

import sublet.schema
from sublet.dns.names import is_at_or_below, owner_key

revision = "0005"
down_revision = "0004"
branch_labels = None
depends_on = None
# Code of 0004 changes delegations without updating the index, so a name could be released while others depend on it.
compatible_with: tuple[str, ...] = ()

AT_ONCE = 10_000
BIG_ID = sa.BigInteger().with_variant(sa.Integer(), "sqlite")


def upgrade() -> None:
    """Add the table and fill it. Make the names in the trash due, so that the sweep tells the holders of their dependents."""
    by_bytes = sa.String().with_variant(sa.String(collation="C"), "postgresql")
    op.create_table(
        "nameserver_hosts",
        sa.Column("subdomain_id", BIG_ID, nullable=False),
        sa.Column("host_key", by_bytes, nullable=False),
        sa.Column("dropped_generation", sa.Integer(), nullable=True),
        sa.Column("told", sa.Integer(), nullable=False, server_default="0"),
        sa.Column("told_since", sublet.schema.Instant(), nullable=True),
        sa.ForeignKeyConstraint(
            ["subdomain_id"], ["subdomains.id"], name=op.f("fk_nameserver_hosts_subdomain_id")
        ),
        sa.PrimaryKeyConstraint("subdomain_id", "host_key", name=op.f("pk_nameserver_hosts")),
    )
    _fill()
    op.create_index("ix_nameserver_hosts_host_key", "nameserver_hosts", ["host_key"])
    op.execute(
        "UPDATE subdomains SET due_at = trashed_at WHERE trashed_at IS NOT NULL AND released_at IS NULL"
    )


def _fill() -> None:
    names = sa.table(
        "subdomains",
        sa.column("id"),
        sa.column("fqdn"),
        sa.column("nameservers", sa.JSON()),
        sa.column("purged_at"),
    )
    hosts = sa.table("nameserver_hosts", sa.column("subdomain_id"), sa.column("host_key"))
    connection, last = op.get_bind(), 0
    query = sa.select(names.c.id, names.c.fqdn, names.c.nameservers).where(names.c.purged_at.is_(None))
    while rows := connection.execute(
        query.where(names.c.id > last).order_by(names.c.id).limit(AT_ONCE)
    ).all():
        last = rows[-1].id
        found = [
            {"subdomain_id": row.id, "host_key": owner_key(host)}
            for row in rows
            for host in row.nameservers
            if not is_at_or_below(host, row.fqdn)
        ]
        if found:
            connection.execute(sa.insert(hosts), found)
