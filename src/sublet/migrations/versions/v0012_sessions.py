"""Add sessions of browsers, passkeys and recoveries; add the user of a mailed code, and the session of an audit event.

Revision ID: 0012
Revises: 0011
"""

import sqlalchemy as sa
from alembic import op

from sublet.schema import Instant

revision = "0012"
down_revision = "0011"
branch_labels = None
depends_on = None
# Code of 0011 would not delete the sessions and passkeys of a deleted user.
compatible_with: tuple[str, ...] = ()

BIG_ID = sa.BigInteger().with_variant(sa.Integer(), "sqlite")


def upgrade() -> None:
    """Create the empty tables, and add columns that are null in existing rows."""
    op.create_table(
        "sessions",
        sa.Column("id", BIG_ID, nullable=False),
        sa.Column("user_id", BIG_ID, nullable=False),
        sa.Column("digest", sa.String(64), nullable=False),
        sa.Column("how", sa.String(16), nullable=False),
        sa.Column("created_at", Instant, nullable=False),
        sa.Column("signed_in_at", Instant, nullable=False),
        sa.Column("expires_at", Instant, nullable=False),
        sa.Column("last_used_at", Instant, nullable=False),
        sa.Column("last_used_from", sa.String(45), nullable=True),
        sa.Column("network", sa.String(64), nullable=False),
        sa.Column("user_agent", sa.String(200), nullable=False),
        sa.ForeignKeyConstraint(["user_id"], ["users.id"], name="fk_sessions_user_id"),
        sa.PrimaryKeyConstraint("id", name="pk_sessions"),
        sa.UniqueConstraint("digest", name="uq_sessions_digest"),
        sqlite_autoincrement=True,
    )
    op.create_index("ix_sessions_user_id", "sessions", ["user_id"])
    op.create_index("ix_sessions_expires_at", "sessions", ["expires_at"])
    op.create_table(
        "passkeys",
        sa.Column("id", BIG_ID, nullable=False),
        sa.Column("user_id", BIG_ID, nullable=False),
        sa.Column("name", sa.String(), nullable=False),
        sa.Column("credential_id", sa.String(1400), nullable=False),
        sa.Column("public_key", sa.String(), nullable=False),
        sa.Column("sign_count", BIG_ID, nullable=False),
        sa.Column("transports", sa.JSON(), nullable=False),
        sa.Column("created_at", Instant, nullable=False),
        sa.Column("last_used_at", Instant, nullable=True),
        sa.ForeignKeyConstraint(["user_id"], ["users.id"], name="fk_passkeys_user_id"),
        sa.PrimaryKeyConstraint("id", name="pk_passkeys"),
        sqlite_autoincrement=True,
    )
    op.create_index("ix_passkeys_user_id", "passkeys", ["user_id"])
    op.create_index("uq_passkeys_credential_id", "passkeys", ["credential_id"], unique=True)
    op.create_table(
        "recoveries",
        sa.Column("user_id", BIG_ID, autoincrement=False, nullable=False),
        sa.Column("asked_at", Instant, nullable=False),
        sa.Column("ready_at", Instant, nullable=False),
        sa.Column("ends_at", Instant, nullable=False),
        sa.ForeignKeyConstraint(["user_id"], ["users.id"], name="fk_recoveries_user_id"),
        sa.PrimaryKeyConstraint("user_id", name="pk_recoveries"),
    )
    op.create_index("ix_recoveries_ends_at", "recoveries", ["ends_at"])
    op.add_column("mailed_codes", sa.Column("user_id", BIG_ID, nullable=True))
    op.create_index("ix_mailed_codes_user_id", "mailed_codes", ["user_id"])
    op.add_column("audit_events", sa.Column("session_id", BIG_ID, nullable=True))
    if op.get_bind().dialect.name == "sqlite":
        _replace_trigger()


def _replace_trigger() -> None:
    """Replace the trigger of 0008, which must compare the new column too. PostgreSQL's function compares whole rows."""
    columns = [each["name"] for each in sa.inspect(op.get_bind()).get_columns("audit_events")]
    kept = [each for each in columns if each not in ("reason", "before", "after")]
    same = " AND ".join(f'NEW."{each}" IS OLD."{each}"' for each in kept)
    op.execute("DROP TRIGGER audit_events_no_update")
    op.execute(
        "CREATE TRIGGER audit_events_no_update BEFORE UPDATE ON audit_events "  # noqa: S608 - the columns above
        f"WHEN NOT (EXISTS (SELECT 1 FROM erasures) AND {same}) "
        "BEGIN SELECT RAISE(ABORT, 'audit_events is append-only'); END"
    )
