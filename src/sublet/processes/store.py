"""All SQL of processes and of what they hold."""

from sqlalchemy import Column, Integer, String, Table

from sublet.schema import BIG_ID, Instant, metadata

processes = Table(
    "processes",
    metadata,
    Column("id", String(36), primary_key=True),
    Column("role", String(16), nullable=False),
    Column("host", String(255), nullable=False),
    Column("pid", Integer, nullable=False),
    Column("version", String(32), nullable=False),
    Column("revision", String(32), nullable=False),
    Column("started_at", Instant, nullable=False),
    Column("seen_at", Instant, nullable=False),
)
"""Each process of the service that was there lately: its role, the version of its code, and the schema's revision which that needs."""

leases = Table(
    "leases",
    metadata,
    Column("name", String(64), primary_key=True),
    Column("holder", String(36), nullable=False),
    Column("epoch", BIG_ID, nullable=False),
    Column("expires_at", Instant, nullable=False),
)
"""What one process does alone until an instant; `epoch` counts the holders, so that one who lost it can't be taken for the next."""
