"""The dates of a name: its timeline, and the renewal that happens without a request."""
