"""Add the health of delegations: the state of each name, its history, and the claims of nameservers' addresses.

Revision ID: 0015
Revises: 0014
"""

import sqlalchemy as sa
from alembic import op

from sublet.schema import Instant

revision = "0015"
down_revision = "0014"
branch_labels = None
depends_on = None
compatible_with: tuple[str, ...] = ("0014",)


def upgrade() -> None:
    """Create the empty tables, which the worker fills. Platform domains accept delegations without a check."""
    big_id = sa.BigInteger().with_variant(sa.Integer(), "sqlite")
    op.add_column(
        "platform_domains",
        sa.Column("delegation_check", sa.String(), nullable=False, server_default="off"),
    )
    op.create_table(
        "delegation_health",
        sa.Column("subdomain_id", big_id, autoincrement=False, nullable=False),
        sa.Column("generation", sa.Integer(), nullable=False),
        sa.Column("state", sa.String(16), nullable=False),
        sa.Column("since", Instant, nullable=False),
        sa.Column("findings", sa.JSON(), nullable=False),
        sa.Column("checked_at", Instant, nullable=True),
        sa.Column("next_state", sa.String(16), nullable=True),
        sa.Column("next_since", Instant, nullable=True),
        sa.Column("failures", sa.Integer(), nullable=False),
        sa.Column("mailed_at", Instant, nullable=True),
        sa.Column("due_at", Instant, nullable=False),
        sa.ForeignKeyConstraint(
            ["subdomain_id"], ["subdomains.id"], name="fk_delegation_health_subdomain_id"
        ),
        sa.PrimaryKeyConstraint("subdomain_id", name="pk_delegation_health"),
    )
    op.create_index("ix_delegation_health_due_at", "delegation_health", ["due_at"])
    op.create_index("ix_delegation_health_state", "delegation_health", ["state", "subdomain_id"])
    op.create_table(
        "health_changes",
        sa.Column("id", big_id, nullable=False),
        sa.Column("subdomain_id", big_id, nullable=False),
        sa.Column("at", Instant, nullable=False),
        sa.Column("state", sa.String(16), nullable=False),
        sa.Column("codes", sa.JSON(), nullable=False),
        sa.ForeignKeyConstraint(["subdomain_id"], ["subdomains.id"], name="fk_health_changes_subdomain_id"),
        sa.PrimaryKeyConstraint("id", name="pk_health_changes"),
        sqlite_autoincrement=True,
    )
    op.create_index("ix_health_changes_subdomain_id_id", "health_changes", ["subdomain_id", "id"])
    op.create_table(
        "health_targets",
        sa.Column("address", sa.String(45), nullable=False),
        sa.Column("held_until", Instant, nullable=False),
        sa.Column("booked_until", Instant, nullable=False),
        sa.PrimaryKeyConstraint("address", name="pk_health_targets"),
    )
