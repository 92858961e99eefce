"""Add the end of the code in a mail, and erase the texts of mails that were sent, and of mails with codes that can't be used.

Revision ID: 0022
Revises: 0021
"""

import sqlalchemy as sa
from alembic import op

from sublet.schema import Instant

revision = "0022"
down_revision = "0021"
branch_labels = None
depends_on = None
compatible_with: tuple[str, ...] = ("0021",)


def upgrade() -> None:
    """Add the column and the indexes, and erase the texts. A waiting mail with a code expires with the code."""
    op.add_column("mails", sa.Column("expires_at", Instant, nullable=True))
    op.execute(
        "UPDATE mails SET expires_at = coalesce((SELECT expires_at FROM mailed_codes "
        "WHERE mails.reference = 'code:' || mailed_codes.id), mails.created_at) WHERE reference LIKE 'code:%'"
    )
    op.execute("UPDATE mails SET text = '' WHERE sent_at IS NOT NULL")
    for name, condition in (
        ("ix_mails_text", "sent_at IS NULL AND text != ''"),
        ("ix_mails_envelope", "text = ''"),
    ):
        where = sa.text(condition)
        op.create_index(name, "mails", ["created_at"], sqlite_where=where, postgresql_where=where)
