"""Restrict tokens to names, platform domains, networks and daily credits; keep a former secret valid after a rotation.

Revision ID: 0011
Revises: 0010
"""

import sqlalchemy as sa
from alembic import op

import sublet.schema

revision = "0011"
down_revision = "0010"
branch_labels = None
depends_on = None
# Code of 0009 would ignore the restrictions.
compatible_with: tuple[str, ...] = ()

BIG_ID = sa.BigInteger().with_variant(sa.Integer(), "sqlite")


def upgrade() -> None:
    """Add columns of restrictions, which are null for all existing tokens, and the token of a charge."""
    for name in ("names", "domains", "networks"):
        op.add_column("tokens", sa.Column(name, sa.JSON(none_as_null=True), nullable=True))
    op.add_column("tokens", sa.Column("daily_credits", BIG_ID, nullable=True))
    op.add_column("tokens", sa.Column("last_used_from", sa.String(45), nullable=True))
    op.add_column("tokens", sa.Column("creator_token_id", BIG_ID, nullable=True))
    op.add_column("tokens", sa.Column("budget_token_id", BIG_ID, nullable=True))
    op.add_column("tokens", sa.Column("former_digest", sa.String(64), nullable=True))
    op.add_column("tokens", sa.Column("former_until", sublet.schema.Instant(), nullable=True))
    op.create_index("uq_tokens_former_digest", "tokens", ["former_digest"], unique=True)
    op.add_column("transfers", sa.Column("token_id", BIG_ID, nullable=True))
    if op.get_bind().dialect.name == "sqlite":
        _replace_trigger()


def _replace_trigger() -> None:
    """Replace the trigger of 0008, which must compare the new column too. PostgreSQL's function compares whole rows."""
    columns = [each["name"] for each in sa.inspect(op.get_bind()).get_columns("transfers")]
    same = " AND ".join(f'NEW."{each}" IS OLD."{each}"' for each in columns if each != "description")
    op.execute("DROP TRIGGER transfers_no_update")
    op.execute(
        "CREATE TRIGGER transfers_no_update BEFORE UPDATE ON transfers "  # noqa: S608 - the columns above
        f"WHEN NOT (EXISTS (SELECT 1 FROM erasures) AND {same}) "
        "BEGIN SELECT RAISE(ABORT, 'transfers is append-only'); END"
    )
