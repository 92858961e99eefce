"""Add the requests of programs for a token on behalf of a person (RFC 8628).

Revision ID: 0017
Revises: 0016
"""

import sqlalchemy as sa
from alembic import op

from sublet.schema import Instant

revision = "0017"
down_revision = "0016"
branch_labels = None
depends_on = None
# Code of 0016 doesn't delete the requests that a deleted user decided. The sweep deletes them within 70 minutes.
compatible_with: tuple[str, ...] = ("0014", "0015", "0016")

BIG_ID = sa.BigInteger().with_variant(sa.Integer(), "sqlite")


def upgrade() -> None:
    """Create the empty table."""
    op.create_table(
        "device_requests",
        sa.Column("id", BIG_ID, nullable=False),
        sa.Column("name", sa.String(), nullable=False),
        sa.Column("address", sa.String(45), nullable=False),
        sa.Column("network", sa.String(64), nullable=False),
        sa.Column("device_code_digest", sa.String(64), nullable=False),
        sa.Column("user_code_digest", sa.String(64), nullable=False),
        sa.Column("state", sa.String(16), nullable=False),
        sa.Column("user_id", BIG_ID, nullable=True),
        sa.Column("may_spend", sa.Boolean(), nullable=False),
        sa.Column("created_at", Instant, nullable=False),
        sa.Column("expires_at", Instant, nullable=False),
        sa.Column("polled_at", Instant, nullable=True),
        sa.PrimaryKeyConstraint("id", name="pk_device_requests"),
        sa.UniqueConstraint("device_code_digest", name="uq_device_requests_device_code_digest"),
        sa.UniqueConstraint("user_code_digest", name="uq_device_requests_user_code_digest"),
        sqlite_autoincrement=True,
    )
    op.create_index("ix_device_requests_user_id", "device_requests", ["user_id"])
    op.create_index("ix_device_requests_expires_at", "device_requests", ["expires_at"])
    op.create_index("ix_device_requests_network_created_at", "device_requests", ["network", "created_at"])
