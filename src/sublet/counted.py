"""Numbers of things in sentences."""


def counted(count: int, noun: str) -> str:
    """Return the number with the noun in its right form: "1 name", "2 names", "10,000 rows"; the noun takes an s."""
    return f"{count:,} {noun}" if count == 1 else f"{count:,} {noun}s"
