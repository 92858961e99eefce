"""The handler of a name's delegation: asks the name servers of its zone, outside any transaction."""

from collections.abc import Iterator
from contextlib import contextmanager

from sublet.dns.parent_servers import ask_servers
from sublet.errors import RateLimited, Unavailable
from sublet.http.delegation_shapes import DelegationAnswer
from sublet.http.endpoints import Answer, Call
from sublet.http.render import delegation_answer
from sublet.subdomains.served import report_served
from sublet.subdomains.view_delegation import view_delegation

ASKING_MAX = 32
"""How many requests of the process ask name servers at once: each is a connection to every server of a zone."""

ASKING_MAX_OF_USER = 4
"""How many of them may be one user's: a script must not take the places of all others."""


async def get_delegation(call: Call[None, None]) -> Answer:
    """One of the user's own delegations, live or in the trash: stored, published, as each name server answers now, and its provisioning."""
    db, user_id, identifier = call.context.db, call.registrant.user.id, call.path["fqdn"]
    before = await db.read(view_delegation, user_id, identifier)
    with _place(call):
        answers = await ask_servers(
            call.context.name_servers(before.platform_domain),
            before.platform_domain.domain,
            before.subdomain.fqdn,
            also_absent=before.also_absent,
        )
    # What was answered may be of before or after a change that was made while it was asked for.
    view = await db.read(view_delegation, user_id, identifier)
    report = report_served(
        view.subdomain,
        view.desired,
        answers,
        changed_meanwhile=view.desired != before.desired
        or view.subdomain.generation != before.subdomain.generation
        or view.subdomain.published_generation != before.subdomain.published_generation,
    )
    answer: DelegationAnswer = delegation_answer(view.subdomain, report, view.warnings)
    return Answer(answer)


@contextmanager
def _place(call: Call[None, None]) -> Iterator[None]:
    """Take one of the places of those that ask at once; nobody waits for one: a place is free again in seconds.

    Raises:
        RateLimited: the user has as many as one may.
        Unavailable: all are taken.
    """
    asking, user_id = call.context.asking, call.registrant.user.id
    if asking[user_id] >= ASKING_MAX_OF_USER:
        raise RateLimited(
            f"{ASKING_MAX_OF_USER} requests of yours ask the name servers already; wait for their answers.",
            retry_after_seconds=1,
        )
    if asking.total() >= ASKING_MAX:
        raise Unavailable(
            "Too many requests ask the name servers right now; try again in a moment.", retry_after_seconds=1
        )
    asking[user_id] += 1
    try:
        yield
    finally:
        asking[user_id] -= 1
        if not asking[user_id]:
            del asking[user_id]
