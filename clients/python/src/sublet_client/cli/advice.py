"""What to do after an error, and the exit codes (no network)."""

from datetime import datetime

from sublet_client.exceptions import ApiError

REFUSED, USAGE, UNREACHED, SIGNED_OUT, UNPAID, PARTLY = 1, 2, 3, 4, 5, 6
INTERRUPTED = 130
EXIT_CODES = {
    0: "done",
    REFUSED: "the registry refused, and changed nothing; or a name failed to be published",
    USAGE: "the command line or a file is wrong",
    UNREACHED: "the registry gave no answer, or is busy: run the same command again",
    SIGNED_OUT: "there is no token, or it is not valid any more",
    UNPAID: "it costs credits, and nothing was paid: no consent, a higher price, or too low a balance",
    PARTLY: "some names were done, perhaps paid, and then one failed: "
    "the message has the names that are left",
    INTERRUPTED: "interrupted",
}
NEXT = {
    "access_denied": "subletctl login",
    "account_suspended": 'subletctl tickets open "My account is suspended" "Why?"',
    "authorization_pending": "subletctl login",
    "clock_implausible": "run the same command again in an hour",
    "conflict": "{command} --help",
    "delegation_broken": "subletctl health --plan {name} --nameserver HOST",
    "delegation_exists": "subletctl ns set {name} --no-nameservers",
    "expired_token": "subletctl login",
    "free_quota_exceeded": "subletctl account quota",
    "idempotency_in_progress": "run the same command again",
    "idempotency_key_reused": "run the same command again",
    "insufficient_credits": "subletctl credits packages",
    "insufficient_role": "subletctl organizations list",
    "insufficient_scope": "subletctl login, and allow what is missing; or subletctl tokens list",
    "internal_error": 'subletctl tickets open "An internal error", with the request id',
    "invalid_cursor": "run the same command again",
    "invalid_json": "subletctl --version, and update it",
    "invalid_request": "{command} --help",
    "method_not_allowed": "subletctl --version, and update it",
    "nameserver_required": "subletctl ns set {name} --nameserver HOST",
    "not_found": "subletctl whoami, once the address (subletctl profiles) is right",
    "organization_not_found": "subletctl organizations list",
    "origin_refused": "subletctl login",
    "payload_too_large": "send less",
    "payment_confirmation_required": "the same command with --yes --max-credits {price}",
    "platform_domain_not_found": "subletctl domains list",
    "precondition_failed": "subletctl names show {name}, then the same command again",
    "price_changed": "the same command with --max-credits {price}",
    "rate_limited": "run the same command again later",
    "records_exist": "subletctl records list {name}",
    "records_not_allowed": "subletctl ns set {name} --nameserver HOST",
    "registration_closed": "subletctl domains list",
    "registration_mode_not_allowed": "subletctl names availability {name}",
    "renewal_not_available": "subletctl names timeline {name}",
    "retry_not_available": "subletctl names show {name}",
    "session_invalid": "subletctl login",
    "sign_in_required": "sign in with a browser, and do it there",
    "signup_closed": "ask the operator of the registry for an invitation",
    "slow_down": "subletctl login",
    "subdomain_not_found": "subletctl names list",
    "subdomain_suspended": 'subletctl tickets open --name {name} "Suspended" "Why?"',
    "subdomain_unavailable": "subletctl names availability OTHER-NAME",
    "ticket_closed": "subletctl tickets open SUBJECT MESSAGE",
    "ticket_not_found": "subletctl tickets list",
    "token_expired": "subletctl login",
    "token_invalid": "subletctl login",
    "token_missing": "subletctl login",
    "token_not_found": "subletctl tokens list",
    "token_restricted": "subletctl whoami",
    "token_revoked": "subletctl login",
    "transfer_not_found": "subletctl transfer list",
    "transfer_pending": "subletctl transfer withdraw {transfer_id}",
    "unavailable": "run the same command again",
    "unsupported_media_type": "subletctl --version, and update it",
    "validation_failed": "{command} --help",
}
"""The next command by the code of the API. `{name}` is the name of the command line, `{command}` the command;
the rest are members of the details or of the quote.
"""
SENTENCES = {
    "access_denied": "The person refused.",
    "delegation_exists": "{name} has nameservers, which answer for it, so it can't have records.",
    "expired_token": "This code is wrong, used or too old.",
    "free_quota_exceeded": "Your {limit} free names are used up.",
    "insufficient_credits": "It costs {price} credits, and you have {balance}.",
    "insufficient_scope": "The token lacks the scope {required_scope}.",
    "nameserver_required": "{name} has no nameserver yet.",
    "not_found": "The registry doesn't have this: the address is wrong, or the operator has turned it off.",
    "organization_not_found": "You have no such organization, or it has no such member or invitation.",
    "payment_confirmation_required": "It costs {price} credits.",
    "platform_domain_not_found": "{name} is not below a platform domain that you can use.",
    "price_changed": "It costs {price} credits now, more than you allowed. Nothing was paid.",
    "records_exist": "{name} has records, so it can't have nameservers. Remove all its records first.",
    "records_not_allowed": "Names under this platform domain can't have records.",
    "renewal_not_available": "{name} can be renewed from {opens_at} on.",
    "retry_not_available": "The publication of {name} has not failed, so there is nothing to repeat.",
    "sign_in_required": "This needs a sign-in within the last ten minutes.",
    "subdomain_not_found": "You have no name {name}.",
    "ticket_not_found": "You have no such ticket.",
    "token_expired": "The token has expired.",
    "token_invalid": "The token is not valid: it has a typing error, or its secret was replaced.",
    "token_missing": "There is no token.",
    "token_not_found": "You have no such token, or it may do more than the one that you use.",
    "token_revoked": "The token was revoked.",
    "transfer_not_found": "You have no such transfer.",
    "transfer_pending": "{name} is already offered to another user.",
}
"""What is wrong, by the code, if the sentence of the API is about requests and members. It is for other
programs.
"""
CASES = {
    "subdomain_unavailable taken": ("You have {name} already.", "subletctl ns set {name} to change it"),
    "subdomain_unavailable in_trash": ("{name} is in your trash.", "subletctl restore {name}"),
    "subdomain_not_found in_trash": (
        "{name} is in the trash. You can restore it until {restorable_until}.",
        "subletctl restore {name}",
    ),
    "subdomain_not_found suspended": (
        "{name} is in the trash, and the operator suspended it.",
        NEXT["subdomain_suspended"],
    ),
    "renewal_not_available operator": (
        "Only the operator renews {name}.",
        'subletctl tickets open --name {name} "Renewal" "Please renew it."',
    ),
    "conflict state": ("{name} is {status}, which doesn't allow this.", "subletctl names show {name}"),
}
"""Sentence and next command of cases of a code."""
FIELDS: dict[str, str] = {
    "label_required": "Give a full name, such as blog.example.net.",
    "platform_domain_required": "Give a full name, such as blog.example.net.",
}
"""What is wrong, by the code of the field, as above."""
NOT_REACHED = "subletctl whoami, once the address (subletctl profiles) and the network are right"
_SIGNED_OUT = {"token_missing", "token_invalid", "token_expired", "token_revoked", "session_invalid"}
_UNPAID = {"payment_confirmation_required", "price_changed", "insufficient_credits"}


def exit_code_of(code: str, status: int) -> int:
    """Return the exit code for a refusal of the API."""
    if code in _SIGNED_OUT:
        return SIGNED_OUT
    if code in _UNPAID:
        return UNPAID
    return UNREACHED if status in (429, 502, 503, 504) else REFUSED


def explain(error: ApiError, name: str, command: str) -> tuple[str, str]:
    """Return what is wrong, and the next command.

    `name` is the name that the command is about, or a word for it.
    """
    members = {**(error.raw_quote or {}), **error.details}
    known = _Known({key: _readable(value) for key, value in members.items()}, name=name, command=command)
    sentence, next_command = CASES.get(
        _case(error), (SENTENCES.get(error.code), NEXT.get(error.code, "{command} --help"))
    )
    text = error.message if sentence is None else sentence.format_map(known)
    if error.errors:
        lines = [f"{each.field}: {FIELDS.get(each.code, each.message)}" for each in error.errors]
        text = lines[0] if len(lines) == 1 else "\n  ".join([f"{len(lines)} fields are wrong:", *lines])
    return f"{text}\n  ({error.code}, request {error.request_id})", next_command.format_map(known)


class _Known(dict[str, object]):
    """The values of the sentences; one that an older registry doesn't send is left out."""

    def __missing__(self, key: str) -> str:
        return "…"


def _case(error: ApiError) -> str:
    details, case = error.details, ""
    if error.code == "subdomain_unavailable" and details.get("owned"):
        case = str(details.get("reason"))
    elif error.code == "subdomain_not_found" and details.get("in_trash"):
        case = "in_trash" if details.get("restorable_until") else "suspended"
    elif error.code == "renewal_not_available" and details.get("opens_at") is None:
        case = "operator"
    elif error.code == "conflict" and "status" in details:
        case = "state"
    return f"{error.code} {case}"


def _readable(value: object) -> object:
    """Return a value for people: an instant without its fractions."""
    if not isinstance(value, str):
        return value
    try:
        return f"{datetime.fromisoformat(value):%Y-%m-%d %H:%M} UTC"
    except ValueError:
        return value
