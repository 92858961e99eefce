"""Add the page of the console that a mail is about, for the link in the mail.

Revision ID: 0019
Revises: 0018
"""

import sqlalchemy as sa
from alembic import op

revision = "0019"
down_revision = "0018"
branch_labels = None
depends_on = None
compatible_with: tuple[str, ...] = ("0014", "0015", "0016", "0017", "0018")


def upgrade() -> None:
    """Add the column. Mails that wait are sent without a link."""
    op.add_column("mails", sa.Column("page", sa.Text(), nullable=False, server_default=""))
