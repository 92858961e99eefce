"""The worker: an edge that the clock and the database's changes drive, not a request."""
