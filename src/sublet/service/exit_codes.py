"""Exit codes of commands and processes that fail (docs/cli.md)."""

REFUSED, USAGE, UNAVAILABLE = 1, 2, 3
