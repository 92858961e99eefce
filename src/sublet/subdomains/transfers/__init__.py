"""Transfers of names between users: offer (push), accept, decline, withdraw, expire."""
