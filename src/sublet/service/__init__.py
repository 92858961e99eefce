"""The processes of a registry: their parts (API, worker, name server), their roles, and the parent of API
processes.
"""
