"""All SQL of rate limits that several processes count together."""

from sqlalchemy import Column, Index, Integer, String, Table

from sublet.schema import Instant, metadata

rate_windows = Table(
    "rate_windows",
    metadata,
    Column("policy", String(32), primary_key=True),
    Column("key", String(64), primary_key=True),
    Column("ends_at", Instant, nullable=False),
    Column("used", Integer, nullable=False),
    Index("ix_rate_windows_ends_at", "ends_at"),
)
"""How much of a window is given out to processes, by policy and key; unlogged on PostgreSQL."""
