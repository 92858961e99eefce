"""The members of `before` and `after` in audit events: which have texts of users, and which are erased with a
user (no SQL).

`tests/support/registry.py` fails a test that records a member that is not declared here.
"""

from collections.abc import Mapping

ERASED: Mapping[str, frozenset[str]] = {
    "device": frozenset({"name"}),
    "mailed_code": frozenset({"email"}),
    "name_transfer": frozenset({"to"}),
    "organization": frozenset({"name", "slug"}),
    "subdomain": frozenset({"records", "suspended_reason"}),
    "token": frozenset({"name", "networks"}),
    "transfer": frozenset({"description"}),
    "user": frozenset({"email", "name", "suspended_reason"}),
}
"""The members with personal texts, by type of object. `registry.erasure_store` erases them with the user."""


def _words(text: str) -> frozenset[str]:
    return frozenset(text.split())


KEPT: Mapping[str, frozenset[str]] = {
    "automatic_ds": _words("ds_records message refusal"),
    "coupon": _words(
        "action code kind max_uses max_uses_per_user platform_domain_id registration_mode retired_at "
        "valid_from valid_until value"
    ),
    "csync": _words("refusal message"),
    "delegation_health": _words("findings state"),
    "device": _words("may_spend"),
    "health": _words("reason"),
    "label_pattern": _words("pattern platform_domain_id"),
    "mail": _words("attempts given_up"),
    "mailed_code": _words("organization_id role"),
    "name_transfer": _words("expires_at subdomain user_id"),
    "organization": _words("forfeited_credits names role user_id"),
    "package": _words("credits currency name price retired_at"),
    "passkey": _words("user_id"),
    "platform_domain": _words(
        "adopted_records apex_nameservers apex_ttl_seconds automatic_ds bootstrap_days broken_days "
        "cooling_off_days csync delegation_check fence_expected fence_found delegation_ttl_seconds "
        "description dnssec_signed domain expire_seconds grace_days hidden idn label label_class "
        "label_length_min look_alike_check mode names_until nameservers_max nameservers_min "
        "negative_ttl_seconds organization_id organization_ids orphaned owner period_days "
        "premium_length_max price_credits primary public_name reason record_octets_max "
        "record_private_addresses record_sets_max record_types record_wildcards records refresh_seconds "
        "registration_open renewal_price_credits renewal_window_days republished restricted retry_seconds "
        "secondaries serial soa_mname soa_rname trash_days ttl_seconds type values withdrawn_at"
    ),
    "session": _words("how user_id"),
    "subdomain": _words(
        "about auto_renew_max_credits below bootstrap charged_credits detail ds_records enabled expires_at "
        "fqdn generation glue holder_id mail_id milestone nameservers owners provision_error "
        "provisioning_status published_at published_generation published_serial purged_at registered_at "
        "registration_type released_at serial stage status suspended_at trashed_at user_id with_user"
    ),
    "sweep": _words("losses reason"),
    "ticket": _words(
        "message_characters message_format message_id priority status subdomain_id subject_characters type"
    ),
    "token": _words(
        "daily_credits domains expires_at former_until is_update_key names organization_id record_names "
        "revoked_at scopes user_id"
    ),
    "transfer": _words("amount balance_after credits currency reference user_id"),
    "user": _words(
        "deleted_at expires_at forfeited_credits free_quota organization_id ready_at reminders "
        "suspended_at user_id"
    ),
}
"""The other members, by type of object: settings, states, ids, instants, and names once held with their
delegations.
"""
_CHOSEN_BY_CLIENTS = _words(
    "below detail domains ds_records fqdn glue message findings names nameservers subdomain"
)
"""The kept members with values that clients choose, such as the digest of a DS record."""


def is_chosen_by_client(object_type: str, member: str) -> bool:
    """True if a client can choose the value of a member."""
    return member in _CHOSEN_BY_CLIENTS or member in ERASED.get(object_type, ())


def is_declared(object_type: str, member: str) -> bool:
    """True if a member is declared as erased or kept."""
    return member in ERASED.get(object_type, ()) or member in KEPT.get(object_type, ())
