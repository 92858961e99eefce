"""Recompute the dates of a platform domain's names in batches.

Revision ID: 0006
Revises: 0005
"""

import sqlalchemy as sa
from alembic import op

revision = "0006"
down_revision = "0005"
branch_labels = None
depends_on = None
# A worker of 0005 would not recompute the dates in the background.
compatible_with: tuple[str, ...] = ()


def upgrade() -> None:
    """Add the id up to which the dates of a platform domain's names are recomputed. It is null if no recomputation is pending."""
    id_type = sa.BigInteger().with_variant(sa.Integer(), "sqlite")
    op.add_column("platform_domains", sa.Column("redate_after_id", id_type, nullable=True))
    unfinished = sa.text("redate_after_id IS NOT NULL")
    op.create_index(
        "ix_platform_domains_redate_after_id",
        "platform_domains",
        ["id"],
        sqlite_where=unfinished,
        postgresql_where=unfinished,
    )
