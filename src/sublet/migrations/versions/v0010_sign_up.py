"""Open accounts without the operator: mailed codes, solved challenges, and mail to addresses without a user.

Revision ID: 0010
Revises: 0009
"""

import secrets

import sqlalchemy as sa
from alembic import op

from sublet.schema import Instant

revision = "0010"
down_revision = "0009"
branch_labels = None
depends_on = None
compatible_with: tuple[str, ...] = ("0009",)


def upgrade() -> None:
    """Create the tables of sign-up, and a key for challenges. Existing users get no `signed_up_at`: the operator added them."""
    big_id = sa.BigInteger().with_variant(sa.Integer(), "sqlite")
    op.add_column("users", sa.Column("signed_up_at", Instant, nullable=True))
    if op.get_bind().dialect.name == "postgresql":
        op.alter_column("mails", "user_id", existing_type=big_id, nullable=True)
    else:
        _allow_null_on_sqlite()
    op.create_table(
        "mailed_codes",
        sa.Column("id", big_id, nullable=False),
        sa.Column("purpose", sa.String(16), nullable=False),
        sa.Column("email", sa.String(254), nullable=False),
        sa.Column("name", sa.String(), nullable=False),
        sa.Column("organization_id", big_id, nullable=True),
        sa.Column("network", sa.String(64), nullable=False),
        sa.Column("is_proven", sa.Boolean(), nullable=False),
        sa.Column("code_digest", sa.String(64), nullable=False),
        sa.Column("link_digest", sa.String(64), nullable=False),
        sa.Column("tries", sa.Integer(), nullable=False),
        sa.Column("created_at", Instant, nullable=False),
        sa.Column("expires_at", Instant, nullable=False),
        sa.Column("used_at", Instant, nullable=True),
        sa.ForeignKeyConstraint(
            ["organization_id"], ["organizations.id"], name="fk_mailed_codes_organization_id"
        ),
        sa.PrimaryKeyConstraint("id", name="pk_mailed_codes"),
        sa.UniqueConstraint("link_digest", name="uq_mailed_codes_link_digest"),
        sqlite_autoincrement=True,
    )
    op.create_index("ix_mailed_codes_expires_at", "mailed_codes", ["expires_at"])
    op.create_index("ix_mailed_codes_email_created_at", "mailed_codes", ["email", "created_at"])
    op.create_index("ix_mailed_codes_network_created_at", "mailed_codes", ["network", "created_at"])
    op.create_table(
        "solved_challenges",
        sa.Column("signature", sa.String(64), nullable=False),
        sa.Column("expires_at", Instant, nullable=False),
        sa.PrimaryKeyConstraint("signature", name="pk_solved_challenges"),
    )
    op.create_index("ix_solved_challenges_expires_at", "solved_challenges", ["expires_at"])
    keys = op.create_table(
        "signing_keys",
        sa.Column("name", sa.String(32), nullable=False),
        sa.Column("secret", sa.String(64), nullable=False),
        sa.PrimaryKeyConstraint("name", name="pk_signing_keys"),
    )
    op.bulk_insert(keys, [{"name": "challenges", "secret": secrets.token_hex(32)}])


def _allow_null_on_sqlite() -> None:
    """Rebuild `mails` with a nullable `user_id`, and `milestones`, which refers to `mails`. SQLite can't change a column.

    While foreign keys are checked, SQLite can't drop a table to which another table refers, so both are renamed first.
    """
    run = op.get_bind().exec_driver_sql
    tables = ("mails", "milestones")
    stored = run(
        "SELECT type, name, sql FROM sqlite_master WHERE tbl_name IN ('mails', 'milestones') AND sql IS NOT NULL"
    ).fetchall()
    texts = {name: sql for kind, name, sql in stored if kind == "table"}
    assert "user_id INTEGER NOT NULL" in texts["mails"]  # noqa: S101 - so it was made
    texts["mails"] = texts["mails"].replace("user_id INTEGER NOT NULL", "user_id INTEGER")
    others = [(kind, name, sql) for kind, name, sql in stored if kind != "table"]
    for kind, name, _ in others:
        run(f"DROP {kind} {name}")
    for name in tables:
        run(f"ALTER TABLE {name} RENAME TO old_{name}")
    for name in tables:
        run(texts[name])
        run(f"INSERT INTO {name} SELECT * FROM old_{name}")  # noqa: S608 - a name of ours
        run(f"DELETE FROM sqlite_sequence WHERE name = '{name}'")  # noqa: S608
        run(f"UPDATE sqlite_sequence SET name = '{name}' WHERE name = 'old_{name}'")  # noqa: S608
    for name in reversed(tables):
        run(f"DROP TABLE old_{name}")
    for _, _, sql in others:
        run(sql)
