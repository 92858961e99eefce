"""Add the notices that are mailed to the operator.

Revision ID: 0020
Revises: 0019
"""

import sqlalchemy as sa
from alembic import op

from sublet.schema import Instant

revision = "0020"
down_revision = "0019"
branch_labels = None
depends_on = None
compatible_with: tuple[str, ...] = ("0014", "0015", "0016", "0017", "0018", "0019")


def upgrade() -> None:
    """Create the empty table."""
    big_id = sa.BigInteger().with_variant(sa.Integer(), "sqlite")
    op.create_table(
        "operator_notices",
        sa.Column("id", big_id, nullable=False),
        sa.Column("reference", sa.String(128), nullable=False),
        sa.Column("kind", sa.String(16), nullable=False),
        sa.Column("text", sa.Text(), nullable=False),
        sa.Column("quoted", sa.Text(), nullable=False),
        sa.Column("user_id", big_id, nullable=True),
        sa.Column("mail_id", big_id, nullable=True),
        sa.Column("created_at", Instant, nullable=False),
        sa.ForeignKeyConstraint(["user_id"], ["users.id"], name="fk_operator_notices_user_id"),
        sa.ForeignKeyConstraint(
            ["mail_id"], ["mails.id"], name="fk_operator_notices_mail_id", ondelete="CASCADE"
        ),
        sa.PrimaryKeyConstraint("id", name="pk_operator_notices"),
        sa.UniqueConstraint("reference", name="uq_operator_notices_reference"),
        sqlite_autoincrement=True,
    )
    op.create_index("ix_operator_notices_mail_id", "operator_notices", ["mail_id"])
    op.create_index("ix_operator_notices_user_id", "operator_notices", ["user_id"])
