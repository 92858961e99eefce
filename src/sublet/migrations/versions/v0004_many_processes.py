"""Share a database between processes: their registration, leases and rate limits. Add label patterns and skeletons against abuse.

Revision ID: 0004
Revises: 0003
"""

import sqlalchemy as sa
from alembic import op

import sublet.schema
from sublet.dns.look_alikes import stored_skeleton
from sublet.dns.names import owner_key

revision = "0004"
down_revision = "0003"
branch_labels = None
depends_on = None
# Code of 0003 ignores leases, so two workers would publish the same zone.
compatible_with: tuple[str, ...] = ()

AT_ONCE = 10_000
BIG_ID = sa.BigInteger().with_variant(sa.Integer(), "sqlite")


def upgrade() -> None:
    """Add the new tables, and columns and indexes of names."""
    op.add_column(
        "subdomains", sa.Column("held_with_user", sa.Boolean(), nullable=False, server_default=sa.false())
    )
    _add_skeletons()
    _add_owner_keys()
    _create_label_patterns()
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
    # Unlogged, which saves waits for the disk: counts of a minute need not survive a crash of PostgreSQL.
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
    # Each registration counts its user's free names.
    is_free = sa.text("registration_type = 'free' AND trashed_at IS NULL")
    op.create_index(
        "ix_subdomains_user_id_free",
        "subdomains",
        ["user_id", "registration_type", "trashed_at"],
        sqlite_where=is_free,
        postgresql_where=is_free,
    )


def _add_skeletons() -> None:
    op.add_column(
        "platform_domains",
        sa.Column("look_alike_check", sa.Boolean(), nullable=False, server_default=sa.true()),
    )
    op.add_column("subdomains", sa.Column("skeleton", sa.String(length=253), nullable=True))
    names = sa.table("subdomains", sa.column("id"), sa.column("label"), sa.column("skeleton"))
    connection, last = op.get_bind(), 0
    while rows := connection.execute(
        sa.select(names.c.id, names.c.label).where(names.c.id > last).order_by(names.c.id).limit(AT_ONCE)
    ).all():
        last = rows[-1].id
        found = [{"of": row.id, "made": made} for row in rows if (made := stored_skeleton(row.label))]
        if found:
            changed = sa.update(names).where(names.c.id == sa.bindparam("of"))
            connection.execute(changed.values(skeleton=sa.bindparam("made")), found)
    asked = sa.text("released_at IS NULL AND skeleton IS NOT NULL")
    op.create_index(
        "ix_subdomains_skeleton", "subdomains", ["skeleton"], sqlite_where=asked, postgresql_where=asked
    )


def _add_owner_keys() -> None:
    """Add the index with which each registration finds platform domains at or below its name."""
    by_bytes = sa.String().with_variant(sa.String(collation="C"), "postgresql")
    op.add_column("platform_domains", sa.Column("owner_key", by_bytes, nullable=False, server_default=""))
    domains = sa.table("platform_domains", sa.column("id"), sa.column("domain"), sa.column("owner_key"))
    connection = op.get_bind()
    found = [
        {"of": row.id, "made": owner_key(row.domain)}
        for row in connection.execute(sa.select(domains.c.id, domains.c.domain)).all()
    ]
    if found:
        changed = sa.update(domains).where(domains.c.id == sa.bindparam("of"))
        connection.execute(changed.values(owner_key=sa.bindparam("made")), found)
    op.create_index("ix_platform_domains_owner_key", "platform_domains", ["owner_key"])


def _create_label_patterns() -> None:
    op.create_table(
        "label_patterns",
        sa.Column("id", BIG_ID, nullable=False),
        sa.Column("platform_domain_id", BIG_ID, nullable=True),
        sa.Column("pattern", sa.String(length=100), nullable=False),
        sa.Column("created_at", sublet.schema.Instant(), nullable=False),
        sa.ForeignKeyConstraint(
            ["platform_domain_id"], ["platform_domains.id"], name=op.f("fk_label_patterns_platform_domain_id")
        ),
        sa.PrimaryKeyConstraint("id", name=op.f("pk_label_patterns")),
        sa.UniqueConstraint(
            "platform_domain_id", "pattern", name=op.f("uq_label_patterns_platform_domain_id_pattern")
        ),
        sqlite_autoincrement=True,
    )
    # A pattern for all platform domains has a null here, and the constraint doesn't treat two nulls as equal.
    everywhere = sa.text("platform_domain_id IS NULL")
    op.create_index(
        "uq_label_patterns_everywhere",
        "label_patterns",
        ["pattern"],
        unique=True,
        sqlite_where=everywhere,
        postgresql_where=everywhere,
    )
