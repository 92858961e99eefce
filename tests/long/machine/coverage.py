"""The outcomes that a run must have seen: of every verb success, crash and every refusal in docs/errors.md
and docs/cli.md.
"""

_PAID = "payment_confirmation_required insufficient_scope price_changed insufficient_credits"
_KEYED = "(done) (crash) (replayed) idempotency_key_reused"
_OWN = f"{_KEYED} account_suspended subdomain_not_found subdomain_suspended"
_OPERATOR = "(done) (crash)"

WANTED: dict[str, frozenset[str]] = {
    verb: frozenset(codes.split())
    for verb, codes in {
        "register": f"{_KEYED} account_suspended clock_implausible "
        "platform_domain_not_found registration_closed "
        "validation_failed "
        f"subdomain_unavailable registration_mode_not_allowed free_quota_exceeded {_PAID}",
        "update_nameservers": f"{_OWN} validation_failed",
        "retry": f"{_OWN} nameserver_required retry_not_available",
        "renew": f"{_OWN} clock_implausible renewal_not_available validation_failed {_PAID}",
        "set_auto_renew": f"{_OWN} validation_failed insufficient_scope",
        "delete": _OWN,
        "restore": f"{_OWN} clock_implausible conflict free_quota_exceeded validation_failed {_PAID}",
        "grant_credits": f"{_OPERATOR} validation_failed",
        "adjust_credits": f"{_OPERATOR} validation_failed conflict",
        "record_payment": f"{_OPERATOR} validation_failed conflict",
        "refund_charge": f"{_OPERATOR} not_found conflict validation_failed",
        "add_coupon": f"{_OPERATOR} validation_failed conflict",
        "retire_coupon": f"{_OPERATOR} not_found conflict",
        "suspend_user": f"{_OPERATOR} conflict",
        "unsuspend_user": f"{_OPERATOR} conflict",
        "edit_quota": f"{_OPERATOR} validation_failed",
        "suspend": f"{_OPERATOR} not_found conflict",
        "unsuspend": f"{_OPERATOR} not_found conflict",
        "operator_restore": f"{_OPERATOR} not_found conflict",
        "purge": f"{_OPERATOR} not_found conflict",
        "edit_platform_domain": f"{_OPERATOR} validation_failed conflict",
        "offer_mode": f"{_OPERATOR} validation_failed",
        "withdraw_offer": f"{_OPERATOR} not_found conflict",
        "set_label": f"{_OPERATOR} not_found validation_failed",
        "pass_time": "(done)",
        "restart": "(done)",
        "sweep": "(done) stopped auto_renewed auto_renew_failed took removed",
        "publish": "published not_read_back not_recorded not_sent begun",
    }.items()
}


def missed(outcomes: dict[tuple[str, str], int]) -> list[str]:
    """Return the outcomes never seen, as "verb: outcome"."""
    return [
        f"{verb}: {came}"
        for verb, wanted in WANTED.items()
        for came in sorted(wanted)
        if not outcomes.get((verb, came))
    ]
