"""Open an account: mail a code to an address, then add a user (docs/spec-choices.md,
"Opening an account").

Addresses with and without an account get the same answer. Only the mail differs.
"""

from disposable_email_domains import blocklist
from msgspec import Struct

from sublet import audit
from sublet.accounts.fields import check_email, check_text
from sublet.accounts.model import Member, User
from sublet.accounts.organizations import find_organization, refuse_shared
from sublet.accounts.store import find_user_by_email
from sublet.accounts.tokens.issue import IssuedToken, issue_token
from sublet.accounts.users import add_user
from sublet.audit import Actor
from sublet.db import LockedKind, Tx, lock_text
from sublet.dns.names import ancestors
from sublet.errors import Conflict, FieldError, validation_failed
from sublet.limits import (
    MAILS_TO_ADDRESS,
    SIGN_IN_MAILS_TO_ADDRESS,
    SIGN_UPS_OF_NETWORK,
    UNPROVEN_SIGN_UPS_OF_NETWORK,
)
from sublet.mail.letter import render
from sublet.mail.model import CONFIRM_PATH, SIGN_IN_PATH
from sublet.mail.outbox import lock_and_count_mails
from sublet.restrictions import SCOPES
from sublet.sign_up import store
from sublet.sign_up.codes import INVITATION, SIGN_IN, SIGN_UP, MailedCode, new_code
from sublet.sign_up.mailed_codes import mail_code, may_mail_code, takes_only_links, use_code, use_link
from sublet.sign_up.proof_of_work import SolvedChallenge

PURPOSES = (SIGN_UP, INVITATION)
"""The purposes of codes that open an account."""
TOKEN_DAYS = 30
"""How long the first token is valid."""
FIRST_TOKEN = "first token"  # noqa: S105 - a name, not a secret
"""The name of a new user's first token."""
FIRST_SCOPES = tuple(scope for scope in SCOPES if scope != "credits:spend")


class SignUp(Struct, frozen=True):
    """A request for an account.

    `network` is the client's network; empty means no limit. `solved` is the proof of work, if the client sent
    one.
    """

    email: str
    name: str
    network: str = ""
    solved: SolvedChallenge | None = None


def sign_up(tx: Tx, request: SignUp, public_url: str) -> None:
    """Mail a code that opens an account to an address, or one that signs in if the address already has an
    account.

    If the address got a code within the last minute, or the maximum of mails within an hour, the function
    silently mails nothing: an error would reveal that another person has requested mails to the address.

    Raises, in this order:
        ValidationFailed: all invalid fields: email (disposable addresses too), name, challenge (used before).
        RateLimited: too many sign-ups came from this network, or too many without a solved challenge.
    """
    email, errors = check_email(request.email)
    name, name_errors = check_text("name", request.name)
    errors = [*errors, *name_errors] or check_disposable(email)
    if errors:
        raise validation_failed(errors)
    count = lock_and_count_mails(tx, email)
    _use_challenge(tx, request.solved)
    _limit_network(tx, request)
    user = find_user_by_email(tx, email)
    purpose, purposes = (SIGN_UP, PURPOSES) if user is None else (SIGN_IN, (SIGN_IN,))
    limit = MAILS_TO_ADDRESS if user is None else SIGN_IN_MAILS_TO_ADDRESS
    if not may_mail_code(tx, email, request.network, purposes, count, limit):
        return
    new = new_code()
    message = render(
        purpose,
        name="" if user is None else user.name,
        code="" if takes_only_links(tx, email, purposes) else new.code.reveal(),
        link=new.link(public_url, CONFIRM_PATH if user is None else SIGN_IN_PATH),
        public_url=public_url,
    )
    mail_code(
        tx,
        new,
        purpose,
        email,
        message,
        name=name if user is None else user.name,
        user_id=None if user is None else user.id,
        network=request.network,
        is_proven=request.solved is not None,
    )


def invite(
    tx: Tx, actor: Actor, email: str, name: str, public_url: str, *, organization: str | None = None
) -> MailedCode:
    """Mail an invitation to open an account, valid for a week, and return it.

    The setting `signup` doesn't matter.

    Raises, in this order:
        ValidationFailed: all invalid fields: email, name.
        NotFound: no organization matches.
        Conflict: several organizations match, or the organization has an account.
        Conflict: another user has this address.
    """
    email, errors = check_email(email)
    name, name_errors = check_text("name", name)
    if errors := [*errors, *name_errors]:
        raise validation_failed(errors)
    joined = find_organization(tx, organization) if organization is not None else None
    if joined is not None:
        refuse_shared(tx, joined)
    if find_user_by_email(tx, email) is not None:
        raise Conflict(f"There is a user {email} already. See `sublet user show {email}`.")
    new, organization_id = new_code(), joined.id if joined else None
    message = render(
        "invitation",
        name=name,
        code=new.code.reveal(),
        link=new.link(public_url, CONFIRM_PATH),
        public_url=public_url,
    )
    code_id = mail_code(tx, new, INVITATION, email, message, name=name, organization_id=organization_id)
    after = {"email": email, "organization_id": organization_id}
    audit.record(tx, actor, "user.invite", code_id, object_type="mailed_code", after=after)
    found = store.find_by_link(tx, new.link_digest)
    assert found is not None  # noqa: S101 - just added
    return found


def confirm_sign_up(
    tx: Tx, actor: Actor, *, email: str = "", code: str = "", link_token: str = ""
) -> Member | None:
    """Open the account of a mailed code, and return the new user.

    Give either the address and its newest code, or `link_token`. Return None if the code is wrong, void, used
    or expired, or the address has an account. The caller refuses after the commit, so that the wrong attempt
    counts.
    """
    found = use_link(tx, link_token, PURPOSES) if link_token else use_code(tx, email, code, PURPOSES)
    if found is None or find_user_by_email(tx, found.email) is not None:
        return None
    joined = None if found.organization_id is None else str(found.organization_id)
    return add_user(tx, actor, found.email, found.name, joined, signed_up=True)


def issue_first_token(tx: Tx, actor: Actor, user: User) -> IssuedToken:
    """Issue the first token of a new user, which can't spend credits."""
    return issue_token(tx, actor, str(user.id), FIRST_TOKEN, scopes=FIRST_SCOPES, expires_in_days=TOKEN_DAYS)


def check_disposable(email: str) -> list[FieldError]:
    """Return an error if the domain of an address provides disposable addresses."""
    domain = email.rpartition("@")[2]
    if blocklist.isdisjoint((domain, *ancestors(domain))):
        return []
    sentence = (
        f"{domain} provides disposable addresses. Give an address whose mail you read as long as you hold "
        "names."
    )
    return [FieldError("email", "value_invalid", sentence)]


def _use_challenge(tx: Tx, solved: SolvedChallenge | None) -> None:
    if solved is not None and not store.insert_solved_challenge(tx, solved.signature, solved.expires_at):
        sentence = "This challenge was used before. Start again with a new challenge."
        raise validation_failed([FieldError("challenge", "value_invalid", sentence)])


def _limit_network(tx: Tx, request: SignUp) -> None:
    if not request.network:
        return
    lock_text(tx, LockedKind.NETWORK, request.network)
    # Codes to sign in count too: a limit on sign-ups alone would reveal which addresses have an account.
    limit, unproven_limit = SIGN_UPS_OF_NETWORK, UNPROVEN_SIGN_UPS_OF_NETWORK
    purposes, since = (*PURPOSES, SIGN_IN), limit.since(tx.now)
    count, unproven = store.count_of_network(tx, request.network, purposes, since)
    if count >= limit.most:
        raise limit.refusal(
            f"More than {limit.most} sign-ups came from your network within an hour. Wait an hour."
        )
    if request.solved is None and unproven >= unproven_limit.most:
        raise unproven_limit.refusal(
            f"More than {unproven_limit.most} sign-ups without a solved challenge came from your network "
            "within an hour. Solve a challenge, as a browser with JavaScript does, or wait an hour."
        )
