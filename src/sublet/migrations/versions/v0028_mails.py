"""Delete old mails that former versions erased but kept, leave erased mails out of the index of old mails,
add the index of the codes in mails, and order mails that are due at the same instant.

Revision ID: 0028
Revises: 0027
"""

import sqlalchemy as sa
from alembic import op

revision = "0028"
down_revision = "0027"
branch_labels = None
depends_on = None
# Only indexes, and rows that no other row needs.
compatible_with: tuple[str, ...] = ("0022", "0023", "0024", "0025", "0026", "0027")
_KEPT = sa.text("text = '' AND recipient != 'deleted'")
_WAITING = sa.text("next_attempt_at IS NOT NULL")
_UNSENT = sa.text("sent_at IS NULL AND text != '' AND expires_at IS NOT NULL")


def upgrade() -> None:
    """Delete the mails, replace two indexes, and add one."""
    op.execute(
        "DELETE FROM mails WHERE text = '' AND recipient = 'deleted' AND next_attempt_at IS NULL"
        " AND NOT EXISTS (SELECT 1 FROM milestones WHERE milestones.mail_id = mails.id)"
    )
    for name, columns, rows in (
        ("ix_mails_envelope", ["created_at"], _KEPT),
        ("ix_mails_next_attempt_at", ["next_attempt_at", "id"], _WAITING),
    ):
        op.drop_index(name, table_name="mails")
        op.create_index(name, "mails", columns, sqlite_where=rows, postgresql_where=rows)
    op.create_index("ix_mails_code", "mails", ["expires_at"], sqlite_where=_UNSENT, postgresql_where=_UNSENT)
