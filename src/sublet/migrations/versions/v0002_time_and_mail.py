"""Add the dates of the sweep, its brake, and the outbox of mail.

Revision ID: 0002
Revises: 0001
"""

from datetime import UTC, datetime

import sqlalchemy as sa
from alembic import op

import sublet.schema

revision = "0002"
down_revision = "0001"
branch_labels = None
depends_on = None

BIG_ID = sa.BigInteger().with_variant(sa.Integer(), "sqlite")
APPEND_ONLY = ("terms", "milestones")


def upgrade() -> None:
    """Add columns to names and users, then the new tables. The first sweep processes every name."""
    op.add_column("users", sa.Column("reminders", sa.Boolean(), nullable=False, server_default=sa.true()))
    for name in ("unsuspended_at", "due_at", "loss_at", "auto_renew_tried_at"):
        op.add_column("subdomains", sa.Column(name, sublet.schema.Instant(), nullable=True))
    op.add_column("subdomains", sa.Column("auto_renew_max_credits", BIG_ID, nullable=True))
    op.execute("UPDATE subdomains SET due_at = created_at WHERE released_at IS NULL")
    for name in ("due_at", "loss_at"):
        dated = sa.text(f"{name} IS NOT NULL")
        op.create_index(
            f"ix_subdomains_{name}", "subdomains", [name], sqlite_where=dated, postgresql_where=dated
        )
    op.create_index(
        "ix_audit_events_object_type_object_id", "audit_events", ["object_type", "object_id", "id"]
    )
    _create_tables()
    op.bulk_insert(sa.table("clockwork", sa.column("id")), [{"id": 1}])
    _stop_where_names_have_expired()
    _refuse_changes()


def _stop_where_names_have_expired() -> None:
    """Stop the sweep if names have expired, so that the first sweep takes no name from a user without a reminder."""
    instant = sublet.schema.Instant()
    now = datetime.now(UTC)
    names = sa.table("subdomains", sa.column("expires_at", instant), sa.column("released_at", instant))
    expired = sa.exists().where((names.c.expires_at <= now) & names.c.released_at.is_(None))
    clockwork = sa.table("clockwork", sa.column("stopped_at", instant), sa.column("stopped_reason"))
    reason = "This registry comes from a version without the sweep, and has expired names. See `sublet sweep status`."
    op.execute(sa.update(clockwork).where(expired).values(stopped_at=now, stopped_reason=reason))


def _create_tables() -> None:
    op.create_table(
        "mails",
        sa.Column("id", BIG_ID, nullable=False),
        sa.Column("reference", sa.String(length=128), nullable=False),
        sa.Column("user_id", BIG_ID, nullable=False),
        sa.Column("recipient", sa.String(length=254), nullable=False),
        sa.Column("subject", sa.Text(), nullable=False),
        sa.Column("text", sa.Text(), nullable=False),
        sa.Column("attempts", sa.Integer(), nullable=False),
        sa.Column("next_attempt_at", sublet.schema.Instant(), nullable=True),
        sa.Column("error", sa.Text(), nullable=True),
        sa.Column("sent_at", sublet.schema.Instant(), nullable=True),
        sa.Column("logged_at", sublet.schema.Instant(), nullable=True),
        sa.Column("given_up_at", sublet.schema.Instant(), nullable=True),
        sa.Column("created_at", sublet.schema.Instant(), nullable=False),
        sa.ForeignKeyConstraint(["user_id"], ["users.id"], name=op.f("fk_mails_user_id")),
        sa.CheckConstraint(
            "CASE WHEN next_attempt_at IS NULL THEN 0 ELSE 1 END + CASE WHEN sent_at IS NULL THEN 0 ELSE 1 END"
            " + CASE WHEN logged_at IS NULL THEN 0 ELSE 1 END + CASE WHEN given_up_at IS NULL THEN 0 ELSE 1 END = 1",
            name=op.f("ck_mails_state"),
        ),
        sa.PrimaryKeyConstraint("id", name=op.f("pk_mails")),
        sa.UniqueConstraint("reference", name=op.f("uq_mails_reference")),
        sqlite_autoincrement=True,
    )
    waiting = sa.text("next_attempt_at IS NOT NULL")
    op.create_index(
        "ix_mails_next_attempt_at",
        "mails",
        ["next_attempt_at"],
        sqlite_where=waiting,
        postgresql_where=waiting,
    )
    op.create_table(
        "milestones",
        sa.Column("id", BIG_ID, nullable=False),
        sa.Column("subdomain_id", BIG_ID, nullable=False),
        sa.Column("kind", sa.String(length=32), nullable=False),
        sa.Column("about", sublet.schema.Instant(), nullable=False),
        sa.Column("detail", sa.Text(), nullable=True),
        sa.Column("mail_id", BIG_ID, nullable=True),
        sa.Column("created_at", sublet.schema.Instant(), nullable=False),
        sa.ForeignKeyConstraint(["subdomain_id"], ["subdomains.id"], name=op.f("fk_milestones_subdomain_id")),
        sa.ForeignKeyConstraint(["mail_id"], ["mails.id"], name=op.f("fk_milestones_mail_id")),
        sa.PrimaryKeyConstraint("id", name=op.f("pk_milestones")),
        sa.UniqueConstraint(
            "subdomain_id", "kind", "about", name=op.f("uq_milestones_subdomain_id_kind_about")
        ),
        sa.UniqueConstraint("mail_id", name=op.f("uq_milestones_mail_id")),
        sqlite_autoincrement=True,
    )
    lost = sa.text("kind IN ('trashed', 'purged')")
    op.create_index(
        "ix_milestones_lost", "milestones", ["created_at"], sqlite_where=lost, postgresql_where=lost
    )
    op.create_table(
        "clockwork",
        sa.Column("id", sa.Integer(), autoincrement=False, nullable=False),
        sa.Column("seen_at", sublet.schema.Instant(), nullable=True),
        sa.Column("stopped_at", sublet.schema.Instant(), nullable=True),
        sa.Column("stopped_reason", sa.Text(), nullable=True),
        sa.Column("stopped_losses", sa.Integer(), nullable=False, server_default="0"),
        sa.Column("resumed", sa.Boolean(), nullable=False, server_default=sa.false()),
        sa.Column("granted_losses", sa.Integer(), nullable=False, server_default="0"),
        sa.Column("granted_at", sublet.schema.Instant(), nullable=True),
        sa.Column("granted_settled", sa.Boolean(), nullable=False, server_default=sa.false()),
        sa.CheckConstraint("id = 1", name=op.f("ck_clockwork_one")),
        sa.PrimaryKeyConstraint("id", name=op.f("pk_clockwork")),
    )
    op.create_table(
        "forecasts",
        sa.Column("made_at", sublet.schema.Instant(), nullable=False),
        sa.Column("losses", sa.Integer(), nullable=False),
        sa.PrimaryKeyConstraint("made_at", name=op.f("pk_forecasts")),
    )


def _refuse_changes() -> None:
    for table in APPEND_ONLY:
        for verb in ("UPDATE", "DELETE"):
            name = f"{table}_no_{verb.lower()}"
            if op.get_bind().dialect.name == "postgresql":
                op.execute(
                    f"CREATE TRIGGER {name} BEFORE {verb} ON {table} FOR EACH ROW EXECUTE FUNCTION refuse_change()"
                )
            else:
                op.execute(
                    f"CREATE TRIGGER {name} BEFORE {verb} ON {table} "
                    f"BEGIN SELECT RAISE(ABORT, '{table} is append-only'); END"
                )
