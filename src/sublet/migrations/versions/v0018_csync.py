"""Add CSYNC: the policy of platform domains, and the last request of names. Add `broken_days` and the warning before an undelegation.

Revision ID: 0018
Revises: 0017
"""

import sqlalchemy as sa
from alembic import op

from sublet.schema import Instant

revision = "0018"
down_revision = "0017"
branch_labels = None
depends_on = None
compatible_with: tuple[str, ...] = ("0014", "0015", "0016", "0017")


def upgrade() -> None:
    """Create the empty table, and turn both features off for all platform domains."""
    op.add_column(
        "platform_domains", sa.Column("csync", sa.Boolean(), nullable=False, server_default=sa.false())
    )
    op.add_column(
        "platform_domains", sa.Column("broken_days", sa.Integer(), nullable=False, server_default="0")
    )
    op.add_column("delegation_health", sa.Column("warned_at", Instant, nullable=True))
    op.create_table(
        "csync_states",
        sa.Column(
            "subdomain_id",
            sa.BigInteger().with_variant(sa.Integer(), "sqlite"),
            autoincrement=False,
            nullable=False,
        ),
        sa.Column("serial", sa.BigInteger(), nullable=True),
        sa.Column("signed_at", Instant, nullable=True),
        sa.Column("refusal", sa.String(32), nullable=True),
        sa.Column("message", sa.Text(), nullable=True),
        sa.Column("refused_since", Instant, nullable=True),
        sa.ForeignKeyConstraint(["subdomain_id"], ["subdomains.id"], name="fk_csync_states_subdomain_id"),
        sa.PrimaryKeyConstraint("subdomain_id", name="pk_csync_states"),
    )
