"""The limit of open files, which limits how many connections a process can have."""

import resource

import structlog

SPARE = 256
"""Descriptors for everything except clients: the database, name servers, files."""
log = structlog.get_logger()


def allow_connections(wanted: int) -> int:
    """Raise the limit of open files for `wanted` connections, and return how many connections it allows, at least one.

    The default limit (usually 1,024) is often lower than what the process may set.
    """
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    needed = wanted + SPARE
    if soft == resource.RLIM_INFINITY or needed <= soft:
        return wanted
    allowed = needed if hard == resource.RLIM_INFINITY else min(needed, hard)
    try:
        resource.setrlimit(resource.RLIMIT_NOFILE, (allowed, hard))
    except OSError:  # a unit's filter of system calls may forbid it
        allowed = soft
    if allowed < needed:
        log.warning("few_descriptors", connections_wanted=wanted, descriptors=allowed)
    return max(1, min(wanted, allowed - SPARE))
