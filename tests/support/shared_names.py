"""Organizations of the users of `support.registry`, and the actors of requests for them."""

import re

from sqlalchemy import select

from sublet.accounts import membership_store, store
from sublet.accounts.authenticate import authenticate
from sublet.accounts.model import Registrant
from sublet.accounts.tokens.tokens import create_token
from sublet.audit import Actor
from sublet.mail.store import mails
from sublet.organizations.invitations import Accepted, accept_invitation
from sublet.organizations.organization import create_organization, set_role_as_operator
from sublet.restrictions import SCOPES
from support.acting_tokens import acting, issue
from support.registry import OPERATOR, Registry

URL = "https://names.example.net"
STRANGER = Actor(kind="system", name="invitation", request_id="r-1")


def share(registry: Registry, **roles: str) -> int:
    """Create an organization with `ann` as owner and other users in these roles. Return its id."""
    made = registry.write(create_organization, registry.actor(), "Coop", created_max=3)
    for name, role in roles.items():
        registry.write(set_role_as_operator, OPERATOR, str(made.id), f"{name}@example.org", role)
    return made.id


def working_for(registry: Registry, organization_id: int, name: str = "ann", **given: object) -> Actor:
    """Return the actor of a request with a user's token for an organization."""
    wanted = {"scopes": SCOPES, **given}
    issued = registry.write(create_token, acting(issue(registry, name)), "shared", wanted, organization_id)
    found: Registrant = registry.run(authenticate(registry.db, issued.secret))
    return found.actor("r-1")


def account(registry: Registry, organization_id: int) -> int:
    """Return the id of an organization's account."""
    found = registry.read(membership_store.find_account, organization_id)
    assert found is not None
    return found.id


def role_of(registry: Registry, organization_id: int, name: str = "ben") -> str | None:
    """Return a user's role in an organization."""
    return registry.read(store.find_role, registry.users[name], organization_id)


def mailed_code(registry: Registry, email: str) -> str:
    """Return the code in the newest mail to an address."""
    query = select(mails.c.text).where(mails.c.recipient == email).order_by(mails.c.id.desc()).limit(1)
    text = registry.read(lambda tx: str(tx.connection.execute(query).scalar_one()))
    found = re.search(r"confirm\?token=(\S+)", text)
    assert found is not None, text
    return found[1]


def accept(registry: Registry, code: str, *, opens_accounts: bool = True) -> Accepted | None:
    """Accept an invitation."""
    return registry.write(accept_invitation, STRANGER, code, opens_accounts=opens_accounts)


def told(registry: Registry, name: str = "ann") -> list[str]:
    """Return the sentences about an organization in the mails to a user, oldest first."""
    email = f"{name}@example.org"
    query = select(mails.c.text).where(
        (mails.c.recipient == email) & mails.c.reference.startswith("organization:")
    )
    texts = registry.read(lambda tx: tx.connection.execute(query.order_by(mails.c.id)).scalars().all())
    return [text.split("\n\n")[1] for text in texts]
