"""Delete old mails that former versions erased but kept, and leave erased mails out of the index of old
mails.

Revision ID: 0028
Revises: 0027
"""

import sqlalchemy as sa
from alembic import op

revision = "0028"
down_revision = "0027"
branch_labels = None
depends_on = None
# Only an index, and rows that no other row needs.
compatible_with: tuple[str, ...] = ("0022", "0023", "0024", "0025", "0026", "0027")
_KEPT = sa.text("text = '' AND recipient != 'deleted'")


def upgrade() -> None:
    """Delete the mails, and replace the index."""
    op.execute(
        "DELETE FROM mails WHERE text = '' AND recipient = 'deleted' AND next_attempt_at IS NULL"
        " AND NOT EXISTS (SELECT 1 FROM milestones WHERE milestones.mail_id = mails.id)"
    )
    op.drop_index("ix_mails_envelope", table_name="mails")
    op.create_index("ix_mails_envelope", "mails", ["created_at"], sqlite_where=_KEPT, postgresql_where=_KEPT)
