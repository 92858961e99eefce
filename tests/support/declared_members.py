"""Find members of audit events that are declared neither as erased with a user (`sublet.audit_members`) nor
as kept.
"""

from collections.abc import Mapping

from sqlalchemy import select

from sublet.audit import audit_events
from sublet.audit_members import ERASED
from sublet.db import Tx


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
"""The members that are kept, by type of object: settings, states, ids, instants, and names once held with
their delegations.
"""


def refuse_undeclared(tx: Tx) -> None:
    """Fail if an event has a member that is declared neither as erased nor as kept
    when its user is deleted.
    """
    events = audit_events.c
    found = {
        (object_type, name)
        for object_type, *sides in tx.connection.execute(
            select(events.object_type, events.before, events.after)
        )
        for members in sides
        for name in members or ()
        if name not in ERASED.get(object_type, ()) and name not in KEPT.get(object_type, ())
    }
    assert found == set(), (
        f"declare {sorted(found)} in src/sublet/audit_members.py if they are personal, or else in "
        "tests/support/declared_members.py"
    )
