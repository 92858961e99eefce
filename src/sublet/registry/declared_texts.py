"""Which text columns are erased with a user, and which are kept (no SQL).

Each text column is declared here, and each member of audit events that is erased in `sublet.audit_members`.
`tests/verbs/test_delete_user.py` fails for a column that isn't declared, and for a declared text that
`erasure_store` doesn't erase.
"""

from collections.abc import Mapping

ERASED: Mapping[str, str] = {
    "audit_events": "reason before after address",
    "mails": "recipient subject text page error",
    "messages": "author_name message",
    "name_transfers": "recipient_email",
    "organizations": "name slug",
    "subdomains": "records suspended_reason",
    "tickets": "subject requester_email",
    "tokens": "name networks last_used_from",
    "transfers": "description",
    "users": "email name suspended_reason",
}
"""The columns that are erased in rows of the user, by table. Of `before` and `after`,
`sublet.audit_members.ERASED` names the members.
"""
DELETED: Mapping[str, str] = {
    "device_requests": "name address network device_code_digest user_code_digest state",
    "idempotency_keys": "key fingerprint outcome",
    "mailed_codes": "purpose email name network code_digest link_digest role",
    "operator_notices": "text quoted",
    "passkeys": "name credential_id public_key transports",
    "sessions": "digest how last_used_from network user_agent",
}
"""The columns of tables whose rows of the user are deleted."""
KEPT: Mapping[str, str] = {
    # kinds, states, references and ids, which the service chooses
    "audit_events": "actor_kind actor_name request_id action object_type",
    "automatic_ds": "refusal message awaited_digest",
    "clockwork": "stopped_reason",
    "commit_marks": "id",
    "csync_states": "refusal message",
    "delegation_health": "state findings next_state",
    "health_brake": "stopped_reason impaired_reason",
    "health_changes": "state codes",
    "leases": "name holder",
    "ledger_accounts": "kind",
    "mails": "reference",
    "memberships": "role",
    "messages": "author_type message_format",
    "milestones": "kind detail",
    "name_transfers": "state",
    "operator_notices": "reference kind",
    "processes": "id role host version revision",
    "schema_compatible_with": "revision",
    "signing_keys": "name secret",
    "solved_challenges": "signature",
    "terms": "action",
    "tickets": "type status priority",
    "transfers": "reference kind amount currency subdomain",
    "zone_states": "fence problem problem_detail repair_stopped_reason watch_problem watch_problem_detail",
    "zone_updates": "fence owners",
    # addresses and networks, which are deleted within a day
    "health_targets": "address",
    "rate_windows": "policy key",
    # digests of secrets and restrictions of revoked tokens
    "tokens": "digest scopes names domains record_names former_digest",
    # the operator's settings
    "coupons": "code kind action registration_mode",
    "label_grants": "label",
    "label_patterns": "pattern",
    "labels": "label label_class",
    "offers": "mode",
    "packages": "name price currency",
    "platform_domains": "domain public_name description delegation_check "
    "automatic_ds apex_nameservers soa_mname soa_rname "
    "primary "
    "secondaries owner_key records record_types",
    # names once held, with their delegations
    "nameserver_hosts": "host_key",
    "published_owners": "owner",
    "subdomains": "label fqdn registration_type registration_source "
    "nameservers glue ds_records provision_error "
    "skeleton",
    "zone_records": "owner owner_key type rdata",
}
"""The columns that are kept, by table."""
