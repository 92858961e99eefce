"""Add the index of the codes in mails, and order mails that are due at the same instant.

Revision ID: 0029
Revises: 0028
"""

import sqlalchemy as sa
from alembic import op

revision = "0029"
down_revision = "0028"
branch_labels = None
depends_on = None
# Only indexes.
compatible_with: tuple[str, ...] = ("0022", "0023", "0024", "0025", "0026", "0027", "0028")
_WAITING = sa.text("next_attempt_at IS NOT NULL")
_UNSENT = sa.text("sent_at IS NULL AND text != '' AND expires_at IS NOT NULL")


def upgrade() -> None:
    """Add the one index, and replace the other."""
    op.create_index("ix_mails_code", "mails", ["expires_at"], sqlite_where=_UNSENT, postgresql_where=_UNSENT)
    op.drop_index("ix_mails_next_attempt_at", table_name="mails")
    op.create_index(
        "ix_mails_next_attempt_at",
        "mails",
        ["next_attempt_at", "id"],
        sqlite_where=_WAITING,
        postgresql_where=_WAITING,
    )
