"""A name that its user offers to another person: push, accept, decline, withdraw, expiry."""
