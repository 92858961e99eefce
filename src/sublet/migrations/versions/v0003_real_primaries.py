"""Serve zones on primary servers: the primary of each zone, the fence, the found records.

Revision ID: 0003
Revises: 0002
"""

import sqlalchemy as sa
from alembic import op

import sublet.schema

revision = "0003"
down_revision = "0002"
branch_labels = None
depends_on = None

BIG_ID = sa.BigInteger().with_variant(sa.Integer(), "sqlite")


def upgrade() -> None:
    """Add columns to platform domains and names, then the new tables. All zones stay on the built-in name server."""
    op.add_column("platform_domains", sa.Column("primary", sa.String(63), nullable=False, server_default=""))
    op.add_column(
        "platform_domains", sa.Column("secondaries", sa.JSON(), nullable=False, server_default="[]")
    )
    # The instant of a generation was not stored so far. The last change of the row is the same or later.
    op.add_column("subdomains", sa.Column("generation_at", sublet.schema.Instant(), nullable=True))
    op.execute("UPDATE subdomains SET generation_at = updated_at")
    op.drop_index("ix_subdomains_unpublished", "subdomains")
    unpublished = sa.text("generation != published_generation")
    op.create_index(
        "ix_subdomains_unpublished",
        "subdomains",
        ["platform_domain_id", "generation_at", "id"],
        sqlite_where=unpublished,
        postgresql_where=unpublished,
    )
    released = sa.text("released_at IS NOT NULL")
    op.create_index(
        "ix_subdomains_fqdn_released",
        "subdomains",
        ["fqdn"],
        sqlite_where=released,
        postgresql_where=released,
    )
    _create_tables()


def _create_tables() -> None:
    instant = sublet.schema.Instant
    op.create_table(
        "zone_states",
        sa.Column("platform_domain_id", BIG_ID, nullable=False),
        sa.Column("fence", sa.String(length=64), nullable=True),
        sa.Column("rebuilt_at", instant(), nullable=True),
        sa.Column("problem", sa.String(length=32), nullable=True),
        sa.Column("problem_detail", sa.Text(), nullable=True),
        sa.Column("problem_at", instant(), nullable=True),
        sa.Column("attempts", sa.Integer(), nullable=False),
        sa.Column("next_attempt_at", instant(), nullable=True),
        sa.Column("checked_at", instant(), nullable=True),
        sa.Column("checked_serial", BIG_ID, nullable=True),
        sa.Column("missing", sa.Integer(), nullable=False),
        sa.Column("different", sa.Integer(), nullable=False),
        sa.Column("orphaned", sa.Integer(), nullable=False),
        sa.Column("foreign_records", sa.Integer(), nullable=False),
        sa.Column("repair_stopped_at", instant(), nullable=True),
        sa.Column("repair_stopped_reason", sa.Text(), nullable=True),
        sa.Column("seen_at", instant(), nullable=True),
        sa.Column("watch_problem", sa.String(length=32), nullable=True),
        sa.Column("watch_problem_detail", sa.Text(), nullable=True),
        sa.ForeignKeyConstraint(
            ["platform_domain_id"], ["platform_domains.id"], name=op.f("fk_zone_states_platform_domain_id")
        ),
        sa.PrimaryKeyConstraint("platform_domain_id", name=op.f("pk_zone_states")),
    )
    op.create_table(
        "zone_updates",
        sa.Column("fence", sa.String(length=64), nullable=False),
        sa.Column("platform_domain_id", BIG_ID, nullable=False),
        sa.Column("owners", sa.JSON(), nullable=False),
        sa.Column("sent_at", instant(), nullable=False),
        sa.ForeignKeyConstraint(
            ["platform_domain_id"], ["platform_domains.id"], name=op.f("fk_zone_updates_platform_domain_id")
        ),
        sa.PrimaryKeyConstraint("fence", name=op.f("pk_zone_updates")),
    )
    op.create_index("ix_zone_updates_platform_domain_id", "zone_updates", ["platform_domain_id"])
