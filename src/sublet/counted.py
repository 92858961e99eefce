"""Numbers with their nouns, for messages."""


def counted(count: int, noun: str) -> str:
    """Return "1 name", "2 names" or "10,000 rows": the number with its noun, whose plural ends in s."""
    return f"{count:,} {noun}" if count == 1 else f"{count:,} {noun}s"
