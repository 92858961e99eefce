"""The processes that share a registry, and the leases they hold."""
