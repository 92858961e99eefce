"""Add the index that lists payments in the order of the ledger.

Revision ID: 0027
Revises: 0026
"""

from alembic import op

revision = "0027"
down_revision = "0026"
branch_labels = None
depends_on = None
# Only an index.
compatible_with: tuple[str, ...] = ("0022", "0023", "0024", "0025", "0026")


def upgrade() -> None:
    """Add the index."""
    op.create_index("ix_transfers_user_id_id", "transfers", ["user_id", "id"])
