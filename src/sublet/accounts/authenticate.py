"""Authenticate: from a bearer token to the registrant it stands for (spec, part 5)."""

from sublet.accounts import store
from sublet.accounts.model import Registrant
from sublet.accounts.tokens import check_token, digest, is_well_formed
from sublet.db import Database
from sublet.errors import TokenInvalid
from sublet.secret import Secret


async def authenticate(db: Database, secret: Secret) -> Registrant:
    """Return the user, organization and token that a token stands for: as they are stored when it is asked, at each request.

    Raises:
        TokenInvalid: a typing error (found without the database), or never issued.
        TokenRevoked: the operator revoked it.
        TokenExpired: its time is over.
        Unavailable: the database can't be read.

    Not checked here: scopes (the edge knows which one a route needs) and the user's suspension (the verbs do).
    """
    token_text = secret.reveal()
    if not is_well_formed(token_text):
        raise TokenInvalid("This is not a token of this service: check for a typing error or a missing part.")
    found = await db.fetch(store.REGISTRANT_BY_DIGEST, token_digest=digest(token_text))
    check_token(found.token if found else None, db.now())
    assert found is not None  # noqa: S101 - check_token raised otherwise
    return found
