"""Find the audit events of a user by an index.

Revision ID: 0009
Revises: 0008
"""

import sqlalchemy as sa
from alembic import op

revision = "0009"
down_revision = "0008"
branch_labels = None
depends_on = None
# Code of 0007 fails on names of the mode admin, and doesn't expect that a name changes its user.
compatible_with: tuple[str, ...] = ()


def upgrade() -> None:
    """Add the index. Events of operators and of the system have no user, and are not in it."""
    by_a_user = sa.text("user_id IS NOT NULL")
    op.create_index(
        "ix_audit_events_user_id",
        "audit_events",
        ["user_id", "id"],
        sqlite_where=by_a_user,
        postgresql_where=by_a_user,
    )
