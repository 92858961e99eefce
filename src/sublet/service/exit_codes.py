"""How a command, or a process of the service, ends that can't do what it is for (docs/cli.md)."""

REFUSED, USAGE, UNAVAILABLE = 1, 2, 3
