"""How many files and connections the system lets this process have open."""

import resource

import structlog

SPARE = 256
"""Descriptors for everything but clients: the database, name servers, files."""
log = structlog.get_logger()


def allow_connections(wanted: int) -> int:
    """Have the system allow as many connections, and return how many it does, at least one.

    What a process is given by default (1,024 as a rule) is often less than it may ask for.
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
