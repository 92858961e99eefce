"""The processes of a registry: their parts (API, worker, name server), the roles made of them, and the parent that keeps API processes."""
