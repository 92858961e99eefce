"""Add the wait for first DS records that no signalling name confirms (RFC 8078, section 3.3).

Revision ID: 0026
Revises: 0025
"""

import sqlalchemy as sa
from alembic import op

from sublet.schema import Instant

revision = "0026"
down_revision = "0025"
branch_labels = None
depends_on = None
# Older code accepts no such DS records, and keeps the new columns of the rows that it changes.
compatible_with: tuple[str, ...] = ("0022", "0023", "0024", "0025")


def upgrade() -> None:
    """Add the columns. Existing platform domains never accept such DS records."""
    op.add_column(
        "platform_domains", sa.Column("bootstrap_days", sa.Integer(), server_default="0", nullable=False)
    )
    for column in (
        sa.Column("awaited_digest", sa.String(64), nullable=True),
        sa.Column("awaited_generation", sa.Integer(), nullable=True),
        sa.Column("awaited_since", Instant, nullable=True),
        sa.Column("awaited_seen_at", Instant, nullable=True),
    ):
        op.add_column("automatic_ds", column)
