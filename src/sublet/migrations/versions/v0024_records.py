"""Add the records of names, their settings, and the restriction of tokens to owners of records.

Revision ID: 0024
Revises: 0023
"""

import json

import sqlalchemy as sa
from alembic import op

from sublet.dns.types import RECORD_TYPES

revision = "0024"
down_revision = "0023"
branch_labels = None
depends_on = None
# Older code publishes no records. No name has records before the operator allows them on a platform domain.
compatible_with: tuple[str, ...] = ("0022", "0023")


def upgrade() -> None:
    """Add the columns. Existing platform domains accept no records."""
    for column in (
        sa.Column("records", sa.String(), server_default="off", nullable=False),
        sa.Column("record_types", sa.JSON(), server_default=json.dumps(RECORD_TYPES), nullable=False),
        sa.Column("record_sets_max", sa.Integer(), server_default="50", nullable=False),
        sa.Column("record_octets_max", sa.Integer(), server_default="16384", nullable=False),
        sa.Column("record_wildcards", sa.Boolean(), server_default=sa.true(), nullable=False),
        sa.Column("record_private_addresses", sa.Boolean(), server_default=sa.false(), nullable=False),
    ):
        op.add_column("platform_domains", column)
    op.add_column("subdomains", sa.Column("records", sa.JSON(), server_default="[]", nullable=False))
    # Alembic would copy the table on SQLite to add a constraint, so the constraint comes with the column.
    op.execute(
        "ALTER TABLE subdomains ADD COLUMN record_count INTEGER DEFAULT '0' NOT NULL "
        "CONSTRAINT ck_subdomains_content CHECK (nameserver_count = 0 OR record_count = 0)"
    )
    op.add_column(
        "published_owners", sa.Column("has_records", sa.Boolean(), server_default=sa.false(), nullable=False)
    )
    op.add_column("tokens", sa.Column("record_names", sa.JSON(none_as_null=True), nullable=True))
