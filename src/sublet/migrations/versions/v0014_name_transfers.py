"""Add transfers of names between users; add the client's address and the owner of the object to audit events.

Revision ID: 0014
Revises: 0013
"""

import sqlalchemy as sa
from alembic import op

import sublet.schema

revision = "0014"
down_revision = "0013"
branch_labels = None
depends_on = None
# Older code would leave the transfer of a deleted name pending.
compatible_with: tuple[str, ...] = ()

BIG_ID = sa.BigInteger().with_variant(sa.Integer(), "sqlite")
ERASABLE = {"audit_events": ("reason", "before", "after", "address"), "transfers": ("description",)}
"""The columns that may be changed while `erasures` has a row: those of 0008, and the address."""


def upgrade() -> None:
    """Add the table of transfers of names, and the address and owner of audit events, which are null in old events."""
    _create_table()
    op.add_column("audit_events", sa.Column("address", sa.String(45), nullable=True))
    op.add_column("audit_events", sa.Column("owner_id", BIG_ID, nullable=True))
    for name, columns in (("owner_id", ["owner_id", "id"]), ("address", ["at"])):
        present = sa.text(f"{name} IS NOT NULL")
        op.create_index(
            f"ix_audit_events_{name}",
            "audit_events",
            columns,
            sqlite_where=present,
            postgresql_where=present,
        )
    if op.get_bind().dialect.name == "postgresql":
        _replace_function()
    else:
        _replace_trigger()


def _create_table() -> None:
    op.create_table(
        "name_transfers",
        sa.Column("id", BIG_ID, nullable=False),
        sa.Column("subdomain_id", BIG_ID, nullable=False),
        sa.Column("from_user_id", BIG_ID, nullable=False),
        sa.Column("recipient_email", sa.String(254), nullable=False),
        sa.Column("to_user_id", BIG_ID, nullable=True),
        sa.Column("state", sa.String(16), nullable=False),
        sa.Column("is_mailed", sa.Boolean(), nullable=False),
        sa.Column("created_at", sublet.schema.Instant(), nullable=False),
        sa.Column("expires_at", sublet.schema.Instant(), nullable=False),
        sa.Column("ended_at", sublet.schema.Instant(), nullable=True),
        sa.CheckConstraint("(state = 'pending') = (ended_at IS NULL)", name=op.f("ck_name_transfers_ended")),
        sa.CheckConstraint(
            "(state IN ('accepted', 'declined')) = (to_user_id IS NOT NULL)",
            name=op.f("ck_name_transfers_answered"),
        ),
        sa.ForeignKeyConstraint(
            ["subdomain_id"], ["subdomains.id"], name=op.f("fk_name_transfers_subdomain_id")
        ),
        sa.ForeignKeyConstraint(["from_user_id"], ["users.id"], name=op.f("fk_name_transfers_from_user_id")),
        sa.ForeignKeyConstraint(["to_user_id"], ["users.id"], name=op.f("fk_name_transfers_to_user_id")),
        sa.PrimaryKeyConstraint("id", name=op.f("pk_name_transfers")),
        sqlite_autoincrement=True,
    )
    for name in ("from_user_id", "recipient_email"):
        op.create_index(f"ix_name_transfers_{name}_created_at", "name_transfers", [name, "created_at", "id"])
    op.create_index("ix_name_transfers_to_user_id", "name_transfers", ["to_user_id"])
    pending = sa.text("ended_at IS NULL")
    for index, column in (
        ("uq_name_transfers_subdomain_id_pending", "subdomain_id"),
        ("ix_name_transfers_expires_at_pending", "expires_at"),
    ):
        op.create_index(
            index,
            "name_transfers",
            [column],
            unique=index.startswith("uq_"),
            sqlite_where=pending,
            postgresql_where=pending,
        )


def _replace_function() -> None:
    """Replace the function of 0008: an erasure may change addresses, and any transaction may delete but not change them."""
    erasable = sorted({column for columns in ERASABLE.values() for column in columns})
    without = f"- ARRAY[{', '.join(repr(each) for each in erasable)}]"
    op.execute(
        "CREATE OR REPLACE FUNCTION refuse_change() RETURNS trigger LANGUAGE plpgsql AS $$ BEGIN "
        # This comparison comes first, because the worker deletes old addresses and has no privilege to read `erasures`.
        "IF TG_OP = 'UPDATE' AND TG_TABLE_NAME = 'audit_events' "
        "AND to_jsonb(NEW) = to_jsonb(OLD) || '{\"address\": null}' THEN RETURN NEW; END IF; "
        f"IF TG_OP = 'UPDATE' AND TG_TABLE_NAME IN ({', '.join(repr(each) for each in ERASABLE)}) "
        "AND EXISTS (SELECT FROM erasures) "
        f"AND to_jsonb(NEW) {without} = to_jsonb(OLD) {without} THEN RETURN NEW; END IF; "
        "RAISE EXCEPTION '% is append-only', TG_TABLE_NAME; END $$"
    )


def _replace_trigger() -> None:
    """Replace the trigger of 0008 in the same way."""
    columns = [each["name"] for each in sa.inspect(op.get_bind()).get_columns("audit_events")]
    erasable = ERASABLE["audit_events"]
    same = " AND ".join(f'NEW."{each}" IS OLD."{each}"' for each in columns if each not in erasable)
    texts = " AND ".join(f'NEW."{each}" IS OLD."{each}"' for each in erasable if each != "address")
    op.execute("DROP TRIGGER audit_events_no_update")
    op.execute(
        "CREATE TRIGGER audit_events_no_update BEFORE UPDATE ON audit_events "  # noqa: S608 - the columns above
        f"WHEN NOT ({same} AND (EXISTS (SELECT 1 FROM erasures) OR (NEW.address IS NULL AND {texts}))) "
        "BEGIN SELECT RAISE(ABORT, 'audit_events is append-only'); END"
    )
