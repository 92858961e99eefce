"""Close and remove platform domains, and delete users.

Revision ID: 0008
Revises: 0007
"""

import sqlalchemy as sa
from alembic import op

import sublet.schema

revision = "0008"
down_revision = "0007"
branch_labels = None
depends_on = None
# Code of 0007 would serve removed platform domains, and would not end names at the closing date of their platform domain.
compatible_with: tuple[str, ...] = ()

ERASABLE = {"audit_events": ("reason", "before", "after"), "transfers": ("description",)}
"""The columns that may be changed while `erasures` has a row. No other transaction sees the row, because it is deleted before the commit."""


def upgrade() -> None:
    """Add the dates of platform domains and users. Allow a transaction that erases a user to change texts in append-only rows."""
    for name in ("names_until", "removed_at"):
        op.add_column("platform_domains", sa.Column(name, sublet.schema.Instant(), nullable=True))
    op.add_column("users", sa.Column("deleted_at", sublet.schema.Instant(), nullable=True))
    id_type = sa.BigInteger().with_variant(sa.Integer(), "sqlite")
    op.create_table(
        "erasures",
        sa.Column("user_id", id_type, autoincrement=False, nullable=False),
        sa.ForeignKeyConstraint(["user_id"], ["users.id"], name=op.f("fk_erasures_user_id")),
        sa.PrimaryKeyConstraint("user_id", name=op.f("pk_erasures")),
    )
    if op.get_bind().dialect.name == "postgresql":
        _replace_function()
    else:
        for table, erasable in ERASABLE.items():
            _replace_trigger(table, erasable)


def _replace_function() -> None:
    erasable = sorted({column for columns in ERASABLE.values() for column in columns})
    without = f"- ARRAY[{', '.join(repr(each) for each in erasable)}]"
    op.execute(
        "CREATE OR REPLACE FUNCTION refuse_change() RETURNS trigger LANGUAGE plpgsql AS $$ BEGIN "
        f"IF TG_OP = 'UPDATE' AND TG_TABLE_NAME IN ({', '.join(repr(each) for each in ERASABLE)}) "
        "AND EXISTS (SELECT FROM erasures) "
        f"AND to_jsonb(NEW) {without} = to_jsonb(OLD) {without} THEN RETURN NEW; END IF; "
        "RAISE EXCEPTION '% is append-only', TG_TABLE_NAME; END $$"
    )


def _replace_trigger(table: str, erasable: tuple[str, ...]) -> None:
    columns = [each["name"] for each in sa.inspect(op.get_bind()).get_columns(table)]
    same = " AND ".join(f'NEW."{each}" IS OLD."{each}"' for each in columns if each not in erasable)
    op.execute(f"DROP TRIGGER {table}_no_update")
    op.execute(
        f"CREATE TRIGGER {table}_no_update BEFORE UPDATE ON {table} "  # noqa: S608 - the tables and columns above
        f"WHEN NOT (EXISTS (SELECT 1 FROM erasures) AND {same}) "
        f"BEGIN SELECT RAISE(ABORT, '{table} is append-only'); END"
    )
