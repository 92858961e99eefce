"""The processes that share a registry: which are there, and which of them holds what for a while."""
