"""Format numbers with their nouns, for messages."""


def counted(count: int, noun: str) -> str:
    """Return a number with its noun, such as "1 name" or "10,000 rows". The noun's plural must end in s."""
    return f"{count:,} {noun}" if count == 1 else f"{count:,} {noun}s"
