"""What to do after an error, and the exit codes (no network)."""

REFUSED, USAGE, UNREACHED, SIGNED_OUT, UNPAID, PARTLY = 1, 2, 3, 4, 5, 6
EXIT_CODES = {
    0: "done",
    REFUSED: "the registry refused, and changed nothing; or a name failed to be published",
    USAGE: "the command line or a file is wrong",
    UNREACHED: "the registry gave no answer, or is busy: run the same command again",
    SIGNED_OUT: "there is no token, or it is not valid any more",
    UNPAID: "it costs credits, and nothing was paid: no consent, a higher price, or too low a balance",
    PARTLY: "`apply` did some of its steps, perhaps paid ones, and then one failed: the same command does the rest",
    130: "interrupted",
}
NEXT = {
    "access_denied": "subletctl login",
    "account_suspended": 'subletctl tickets open "My account is suspended" "Why?"',
    "authorization_pending": "subletctl login",
    "clock_implausible": "run the same command again in an hour",
    "conflict": "subletctl names show NAME",
    "delegation_broken": "subletctl health --plan NAME --nameserver HOST",
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
    "invalid_request": "subletctl COMMAND --help",
    "method_not_allowed": "subletctl --version, and update it",
    "nameserver_required": "subletctl set NAME --nameserver HOST",
    "not_found": "subletctl names list",
    "organization_not_found": "subletctl organizations list",
    "origin_refused": "subletctl login",
    "payload_too_large": "send less",
    "payment_confirmation_required": "the same command with --yes --max-credits N",
    "platform_domain_not_found": "subletctl domains",
    "precondition_failed": "subletctl names show NAME, then the same command again",
    "price_changed": "the same command with a higher --max-credits",
    "rate_limited": "run the same command again later",
    "registration_closed": "subletctl domains",
    "registration_mode_not_allowed": "subletctl names availability NAME",
    "renewal_not_available": "subletctl names timeline NAME",
    "retry_not_available": "subletctl names show NAME",
    "session_invalid": "subletctl login",
    "sign_in_required": "sign in with a browser, and do it there",
    "signup_closed": "ask the operator of the registry for an invitation",
    "slow_down": "subletctl login",
    "subdomain_not_found": "subletctl names list",
    "subdomain_suspended": 'subletctl tickets open --name NAME "Suspended" "Why?"',
    "subdomain_unavailable": "subletctl names availability NAME",
    "ticket_closed": "subletctl tickets open SUBJECT MESSAGE",
    "ticket_not_found": "subletctl tickets list",
    "token_expired": "subletctl login",
    "token_invalid": "subletctl login",
    "token_missing": "subletctl login",
    "token_not_found": "subletctl tokens list",
    "token_restricted": "subletctl whoami",
    "token_revoked": "subletctl login",
    "transfer_not_found": "subletctl transfer list",
    "transfer_pending": "subletctl transfer list, then subletctl transfer withdraw ID",
    "unavailable": "run the same command again",
    "unsupported_media_type": "subletctl --version, and update it",
    "validation_failed": "subletctl COMMAND --help",
}
"""The next command by the code of the API."""
NOT_REACHED = "subletctl whoami, once the address in `subletctl profiles` and the network are right"
_SIGNED_OUT = {"token_missing", "token_invalid", "token_expired", "token_revoked", "session_invalid"}
_UNPAID = {"payment_confirmation_required", "price_changed", "insufficient_credits"}


def exit_code_of(code: str, status: int) -> int:
    """Return the exit code for a refusal of the API."""
    if code in _SIGNED_OUT:
        return SIGNED_OUT
    if code in _UNPAID:
        return UNPAID
    return UNREACHED if status in (429, 502, 503, 504) else REFUSED
