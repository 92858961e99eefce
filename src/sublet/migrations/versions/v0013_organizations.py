"""Add members and roles of organizations, and accounts that hold organizations' names and credits.

Revision ID: 0013
Revises: 0012
"""

import sqlalchemy as sa
from alembic import op

import sublet.schema

revision = "0013"
down_revision = "0012"
branch_labels = None
depends_on = None
# Older code would let a token of an organization act for its user.
compatible_with: tuple[str, ...] = ()

BIG_ID = sa.BigInteger().with_variant(sa.Integer(), "sqlite")

MEMBERSHIPS = """
INSERT INTO memberships (user_id, organization_id, role, created_at)
SELECT id, organization_id,
    CASE WHEN id = (
        SELECT oldest.id FROM users AS oldest
        WHERE oldest.organization_id = users.organization_id AND oldest.deleted_at IS NULL
        ORDER BY (oldest.suspended_at IS NOT NULL), oldest.id LIMIT 1
    ) THEN 'owner' ELSE 'member' END,
    created_at
FROM users WHERE deleted_at IS NULL
"""
"""Make each user a member of the user's organization. The oldest member that isn't suspended becomes its owner."""


def upgrade() -> None:
    """Add memberships. Existing organizations get no account, because they hold no names. Existing tokens act for their users."""
    op.create_table(
        "memberships",
        sa.Column("user_id", BIG_ID, autoincrement=False, nullable=False),
        sa.Column("organization_id", BIG_ID, autoincrement=False, nullable=False),
        sa.Column("role", sa.String(16), nullable=False),
        sa.Column("created_at", sublet.schema.Instant(), nullable=False),
        sa.CheckConstraint(
            "role IN ('owner', 'member', 'billing', 'viewer')", name=op.f("ck_memberships_role")
        ),
        sa.ForeignKeyConstraint(["user_id"], ["users.id"], name=op.f("fk_memberships_user_id")),
        sa.ForeignKeyConstraint(
            ["organization_id"], ["organizations.id"], name=op.f("fk_memberships_organization_id")
        ),
        sa.PrimaryKeyConstraint("user_id", "organization_id", name=op.f("pk_memberships")),
    )
    op.create_index("ix_memberships_organization_id", "memberships", ["organization_id"])
    op.execute(MEMBERSHIPS)
    op.add_column(
        "users", sa.Column("is_organization", sa.Boolean(), nullable=False, server_default=sa.false())
    )
    of_accounts = sa.text("is_organization")
    op.create_index(
        "uq_users_organization_id_account",
        "users",
        ["organization_id"],
        unique=True,
        sqlite_where=of_accounts,
        postgresql_where=of_accounts,
    )
    op.add_column("organizations", sa.Column("created_by_user_id", BIG_ID, nullable=True))
    op.create_index("ix_organizations_created_by_user_id", "organizations", ["created_by_user_id"])
    op.add_column("tokens", sa.Column("organization_id", BIG_ID, nullable=True))
    op.create_index("ix_tokens_organization_id", "tokens", ["organization_id"])
    op.add_column("mailed_codes", sa.Column("role", sa.String(16), nullable=True))
    op.add_column("mailed_codes", sa.Column("invited_by_user_id", BIG_ID, nullable=True))
    op.create_index("ix_mailed_codes_organization_id", "mailed_codes", ["organization_id"])
