"""Add automatic DS: the policy of platform domains, and the settings and last request of names.

Revision ID: 0016
Revises: 0015
"""

import sqlalchemy as sa
from alembic import op

from sublet.schema import Instant

revision = "0016"
down_revision = "0015"
branch_labels = None
depends_on = None
compatible_with: tuple[str, ...] = ("0014", "0015")


def upgrade() -> None:
    """Create the empty table, and turn automatic DS off for all platform domains."""
    op.add_column(
        "platform_domains", sa.Column("automatic_ds", sa.String(), nullable=False, server_default="off")
    )
    op.create_table(
        "automatic_ds",
        sa.Column(
            "subdomain_id",
            sa.BigInteger().with_variant(sa.Integer(), "sqlite"),
            autoincrement=False,
            nullable=False,
        ),
        sa.Column("enabled", sa.Boolean(), nullable=False),
        sa.Column("bootstrap", sa.Boolean(), nullable=False),
        sa.Column("signed_at", Instant, nullable=True),
        sa.Column("refusal", sa.String(32), nullable=True),
        sa.Column("message", sa.Text(), nullable=True),
        sa.Column("refused_since", Instant, nullable=True),
        sa.ForeignKeyConstraint(["subdomain_id"], ["subdomains.id"], name="fk_automatic_ds_subdomain_id"),
        sa.PrimaryKeyConstraint("subdomain_id", name="pk_automatic_ds"),
    )
