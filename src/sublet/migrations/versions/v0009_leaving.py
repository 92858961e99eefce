"""Close and remove platform domains.

Revision ID: 0009
Revises: 0007
"""

import sqlalchemy as sa
from alembic import op

import sublet.schema

revision = "0009"
down_revision = "0007"
branch_labels = None
depends_on = None
# Code of 0007 would serve removed platform domains, and take no name at the date until which it is kept.
compatible_with: tuple[str, ...] = ()


def upgrade() -> None:
    """Add the date until which a platform domain's names are kept, and when it was removed."""
    for name in ("names_until", "removed_at"):
        op.add_column("platform_domains", sa.Column(name, sublet.schema.Instant(), nullable=True))
