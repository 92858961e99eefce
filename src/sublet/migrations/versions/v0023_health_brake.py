"""Add the brake of health checks, which stops their consequences while the number of broken names is
implausible.

Revision ID: 0023
Revises: 0022
"""

import sqlalchemy as sa
from alembic import op

from sublet.schema import Instant

revision = "0023"
down_revision = "0022"
branch_labels = None
depends_on = None
# Older code doesn't use the table. It acts on broken names without a brake until it is replaced.
compatible_with: tuple[str, ...] = ("0022",)


def upgrade() -> None:
    """Create the table with its only row."""
    op.create_table(
        "health_brake",
        sa.Column("id", sa.Integer(), autoincrement=False, nullable=False),
        sa.Column("stopped_at", Instant, nullable=True),
        sa.Column("stopped_reason", sa.Text(), nullable=True),
        sa.Column("resumed_at", Instant, nullable=True),
        sa.Column("impaired_since", Instant, nullable=True),
        sa.Column("impaired_reason", sa.Text(), nullable=True),
        sa.CheckConstraint("id = 1", name=op.f("ck_health_brake_one")),
        sa.PrimaryKeyConstraint("id", name=op.f("pk_health_brake")),
    )
    op.bulk_insert(sa.table("health_brake", sa.column("id")), [{"id": 1}])
