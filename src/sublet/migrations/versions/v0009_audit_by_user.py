"""Add the index of audit events by user.

Revision ID: 0009
Revises: 0008
"""

import sqlalchemy as sa
from alembic import op

revision = "0009"
down_revision = "0008"
branch_labels = None
depends_on = None
# Code of 0007 fails on names of the mode admin, and on names that change their user.
compatible_with: tuple[str, ...] = ()


def upgrade() -> None:
    """Add the index. It leaves out events of operators and of the system, which have no user."""
    by_a_user = sa.text("user_id IS NOT NULL")
    op.create_index(
        "ix_audit_events_user_id",
        "audit_events",
        ["user_id", "id"],
        sqlite_where=by_a_user,
        postgresql_where=by_a_user,
    )
