"""The HTTP edge: turns requests into (actor, command), and outcomes and refusals into the envelope."""
