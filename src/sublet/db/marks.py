"""The marks of commits: what tells whether a commit was done that nobody answered."""

from sqlalchemy import Column, Index, String, Table

from sublet.schema import Instant, metadata

commit_marks = Table(
    "commit_marks",
    metadata,
    Column("id", String(36), primary_key=True),
    Column("made_at", Instant, nullable=False),
    Index("ix_commit_marks_made_at", "made_at"),
)
"""One row for each transaction whose commit might be answered by nobody: its being there tells that it was done."""
