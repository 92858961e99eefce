"""Many processes over one database: who is there, who holds what, what is counted together, which commits were done.

Revision ID: 0004
Revises: 0003
"""

import sqlalchemy as sa
from alembic import op

import sublet.schema

revision = "0004"
down_revision = "0003"
branch_labels = None
depends_on = None
# Code of 0003 knows no leases: beside it two would work on one zone.
compatible_with: tuple[str, ...] = ()

BIG_ID = sa.BigInteger().with_variant(sa.Integer(), "sqlite")


def upgrade() -> None:
    """Add the new tables; nothing that is there changes."""
    instant = sublet.schema.Instant
    op.create_table(
        "commit_marks",
        sa.Column("id", sa.String(length=36), nullable=False),
        sa.Column("made_at", instant(), nullable=False),
        sa.PrimaryKeyConstraint("id", name=op.f("pk_commit_marks")),
    )
    op.create_index("ix_commit_marks_made_at", "commit_marks", ["made_at"])
    op.create_table(
        "processes",
        sa.Column("id", sa.String(length=36), nullable=False),
        sa.Column("role", sa.String(length=16), nullable=False),
        sa.Column("host", sa.String(length=255), nullable=False),
        sa.Column("pid", sa.Integer(), nullable=False),
        sa.Column("version", sa.String(length=32), nullable=False),
        sa.Column("revision", sa.String(length=32), nullable=False),
        sa.Column("started_at", instant(), nullable=False),
        sa.Column("seen_at", instant(), nullable=False),
        sa.PrimaryKeyConstraint("id", name=op.f("pk_processes")),
    )
    op.create_table(
        "leases",
        sa.Column("name", sa.String(length=64), nullable=False),
        sa.Column("holder", sa.String(length=36), nullable=False),
        sa.Column("epoch", BIG_ID, nullable=False),
        sa.Column("expires_at", instant(), nullable=False),
        sa.PrimaryKeyConstraint("name", name=op.f("pk_leases")),
    )
    # What it counts is of one minute: it need not survive a crash of PostgreSQL, and so costs no wait for the disk.
    is_postgresql = op.get_bind().dialect.name == "postgresql"
    op.create_table(
        "rate_windows",
        sa.Column("policy", sa.String(length=32), nullable=False),
        sa.Column("key", sa.String(length=64), nullable=False),
        sa.Column("ends_at", instant(), nullable=False),
        sa.Column("used", sa.Integer(), nullable=False),
        sa.Column("lent", sa.Integer(), nullable=False),
        sa.PrimaryKeyConstraint("policy", "key", name=op.f("pk_rate_windows")),
        prefixes=["UNLOGGED"] if is_postgresql else [],
    )
    op.create_index("ix_rate_windows_ends_at", "rate_windows", ["ends_at"])
    op.create_table(
        "schema_compatible_with",
        sa.Column("revision", sa.String(length=32), nullable=False),
        sa.PrimaryKeyConstraint("revision", name=op.f("pk_schema_compatible_with")),
    )
