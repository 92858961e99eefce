"""Mark the tokens that are update keys (docs/certificates.md).

Revision ID: 0025
Revises: 0024
"""

import sqlalchemy as sa
from alembic import op

revision = "0025"
down_revision = "0024"
branch_labels = None
depends_on = None
# Older code knows no update keys, and shows them as tokens.
compatible_with: tuple[str, ...] = ("0022", "0023", "0024")


def upgrade() -> None:
    """Add the column. Existing tokens are no update keys."""
    op.add_column(
        "tokens", sa.Column("is_update_key", sa.Boolean(), server_default=sa.false(), nullable=False)
    )
