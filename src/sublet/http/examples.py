"""The examples of the documentation. A test sends the bodies, and parses the answers as their shapes."""

from typing import Any

_NOW = "2026-11-21T09:30:00.000000Z"
_NEXT_YEAR = "2027-11-21T09:30:00.000000Z"
_DS = {
    "key_tag": 2371,
    "algorithm": 13,
    "digest_type": 2,
    "digest": "1f987cc6583e92df0890718c42a1d3b1a1f4b4a6b2d8a1dd09a4c1d7f4d3e5a6",
}
_SUBDOMAIN: dict[str, Any] = {
    "id": 17,
    "fqdn": "blog.example.net",
    "label": "blog",
    "domain": "example.net",
    "domain_public_name": "Example Net",
    "status": "active",
    "status_label": "Active",
    "registration_type": "free",
    "registration_source": "api",
    "nameservers": ["ns1.provider.example", "ns1.blog.example.net"],
    "glue": [{"host": "ns1.blog.example.net", "ipv4": "8.8.4.4", "ipv6": None}],
    "dnssec_enabled": True,
    "ds_records": [_DS],
    "provision_error": None,
    "registered_at": _NOW,
    "expires_at": _NEXT_YEAR,
    "last_renewed_at": None,
    "renewal_available": False,
    "created_at": _NOW,
    "updated_at": _NOW,
}
_PROVISIONING = {
    "status": "published",
    "generation": 1,
    "published_generation": 1,
    "attempts": 0,
    "next_attempt_at": None,
    "published_at": _NOW,
    "zone": "example.net",
    "serial": 42,
    "error": None,
    "warnings": [],
}
_FINDING = {
    "code": "lame",
    "level": "warning",
    "subject": "ns1.provider.example",
    "message": "Nameserver ns1.provider.example (8.8.8.8) answers REFUSED for blog.example.net.",
    "hint": "Set up the zone blog.example.net there, or remove the nameserver.",
}
_HEALTH = {
    "fqdn": "blog.example.net",
    "checks_enabled": True,
    "state": "degraded",
    "since": _NOW,
    "checked_at": _NOW,
    "next_check_at": "2026-11-22T09:30:00.000000Z",
    "unconfirmed_state": None,
    "leaves_at": None,
    "findings": [_FINDING],
    "history": [{"at": _NOW, "state": "degraded", "findings": ["lame"]}],
}
_COUPON = {"code": "AUTUMN", "kind": "percent", "value": 50, "discount_credits": 5}
_PAGE = {"limit": 100, "next_cursor": None, "has_more": False}
_TICKET: dict[str, Any] = {
    "id": 123,
    "ticket_number": "T-000123",
    "type": "support",
    "status": "open",
    "priority": "normal",
    "subject": "How do I add a second nameserver?",
    "requester_email": "ada@example.org",
    "subdomain": "blog.example.net",
    "archived": False,
    "created_at": _NOW,
    "last_message_at": _NOW,
    "updated_at": _NOW,
}
_MESSAGE = {
    "id": 301,
    "author_type": "user",
    "author_name": "Ada",
    "message": "My provider gave me two. Where does the second one go?",
    "message_format": "text",
    "created_at": _NOW,
}
QUOTE: dict[str, Any] = {
    "action": "register",
    "fqdn": "shop.example.net",
    "registration_mode": "plus",
    "period_days": 365,
    "list_price": 10,
    "discount": 5,
    "price": 5,
    "balance": 100,
    "balance_after": 95,
    "sufficient": True,
    "shortfall": 0,
    "coupon": _COUPON,
    "new_expires_at": _NEXT_YEAR,
}

_USER = {"id": 1, "email": "ada@example.org", "name": "Ada", "reminders": True, "created_at": _NOW}
_ME = {
    "user": _USER,
    "organization": {"id": 1, "name": "Ada's Works", "slug": "ada-s-works", "created_at": _NOW},
    "token": {
        "id": 4,
        "name": "laptop",
        "scopes": ["account:read", "subdomains:read", "subdomains:write"],
        "created_at": _NOW,
        "expires_at": _NEXT_YEAR,
        "last_used_at": _NOW,
    },
}
_TOKEN: dict[str, Any] = {
    "id": 7,
    "name": "ci",
    "scopes": ["subdomains:read", "subdomains:write"],
    "names": ["*.example.net"],
    "domains": None,
    "networks": ["198.51.100.0/24"],
    "daily_credits": None,
    "organization_id": 1,
    "created_at": _NOW,
    "expires_at": "2026-12-21T09:30:00.000000Z",
    "last_used_at": None,
    "last_used_from": None,
    "revoked_at": None,
}
_SESSION = {
    "id": 3,
    "how": "mail",
    "created_at": _NOW,
    "signed_in_at": _NOW,
    "expires_at": "2026-12-05T09:30:00.000000Z",
    "last_used_at": _NOW,
    "last_used_from": "192.0.2.7",
    "user_agent": "Mozilla/5.0 …",
    "current": True,
}
_PASSKEY = {"id": 3, "name": "phone", "created_at": _NOW, "last_used_at": None}
_CREDENTIAL = {"id": "AQID", "rawId": "AQID", "type": "public-key", "response": {"clientDataJSON": "e30"}}
_SHOWN_ONCE = "sublet_0123456789…"
_REGISTERED = {
    "subdomain": _SUBDOMAIN,
    "provisioning": _PROVISIONING,
    "charged_credits": 0,
    "coupon": None,
}
_DELEGATION = {name: _SUBDOMAIN[name] for name in ("nameservers", "glue", "ds_records")}
_EVENT = {"past": False, "detail": None, "by": None, "expires_at": None, "charged_credits": None}
_AUTO_RENEW = {
    "enabled": True,
    "max_credits": 20,
    "renewal_price_credits": 10,
    "next_attempt_at": "2027-09-22T09:30:00.000000Z",
    "last_attempt": {
        "at": "2026-09-22T09:30:00.000000Z",
        "outcome": "renewed",
        "detail": None,
        "charged_credits": 10,
    },
}
_AUTOMATIC_DS = {
    "policy": "all",
    "enabled": True,
    "bootstrap": False,
    "ds_records": [{**_DS, "source": "cds", "since": "2026-10-04T03:12:08.000000Z"}],
    "followed_signed_at": "2026-10-04T02:00:00.000000Z",
    "refusal": None,
    "csync": {"followed": True, "serial": None, "signed_at": None, "refusal": None},
}
_TRANSFER: dict[str, Any] = {
    "id": 3,
    "direction": "sent",
    "subdomain": "blog.example.net",
    "sender": "ada@example.org",
    "to": "bob@example.org",
    "state": "pending",
    "created_at": _NOW,
    "expires_at": "2026-11-28T09:30:00.000000Z",
    "ended_at": None,
}
_RECEIVED = {**_TRANSFER, "direction": "received", "ended_at": "2026-11-22T09:30:00.000000Z"}
_ACTIVITY: dict[str, Any] = {
    "id": 42,
    "at": _NOW,
    "action": "subdomain.register",
    "by": "user",
    "token_id": 7,
    "token_name": "ci",
    "address": "198.51.100.7",
    "object_type": "subdomain",
    "object_id": 17,
    "subdomain": "blog.example.net",
    "before": None,
    "after": {"fqdn": "blog.example.net", "registration_type": "free", "charged_credits": 0},
}
_OPEN_TICKET = {"ticket": {**_TICKET, "messages": [_MESSAGE]}}

_ORGANIZATION: dict[str, Any] = {
    "id": 3,
    "name": "Example Cooperative",
    "slug": "example-cooperative-k3x9qd",
    "role": "owner",
    "created_at": _NOW,
}
_MEMBER: dict[str, Any] = {
    "user_id": 8,
    "email": "bob@example.org",
    "name": "Bob",
    "role": "member",
    "created_at": _NOW,
}
_INVITATION = {
    "id": 4,
    "email": "bob@example.org",
    "role": "member",
    "created_at": _NOW,
    "expires_at": "2026-11-28T09:30:00.000000Z",
}
_CHALLENGE = {
    "parameters": {
        "algorithm": "PBKDF2/SHA-256",
        "cost": 5000,
        "expiresAt": 1795254600,
        "keyLength": 32,
        "keyPrefix": "00",
        "nonce": "0c1c6f0a3b5d4e7f8a9b0c1d2e3f4a5b",
        "salt": "5b4a3f2e1d0c9b8a7f4e5d3b0a6f1c0c",
    },
    "signature": "9b6c3d5f1a2e4b8c7d0f9e8a6b5c4d3e2f1a0b9c8d7e6f5a4b3c2d1e0f9a8b7c",
}

_DEVICE = {
    "name": "ada's laptop",
    "user_code": "WDJB-MJHT",
    "address": "192.0.2.7",
    "state": "pending",
    "scopes": ["account:read", "subdomains:read", "subdomains:write"],
    "created_at": "2026-11-21T09:30:00.000000Z",
    "expires_at": "2026-11-21T09:40:00.000000Z",
}

BODIES: dict[str, dict[str, Any]] = {
    "sign_up": {"email": "ada@example.org", "name": "Ada"},
    "confirm_sign_up": {"email": "ada@example.org", "code": "123456"},
    "request_sign_in": {"email": "ada@example.org"},
    "confirm_sign_in": {"email": "ada@example.org", "code": "123456"},
    "challenge_passkey": {},
    "confirm_passkey": {"credential": _CREDENTIAL},
    "start_device": {"name": "ada's laptop"},
    "allow_device": {"may_spend": False},
    "refuse_device": {},
    "poll_device": {"device_code": "GmRhmhcxhwAzkoEqiMEg_DnyEysNkuNhszIySk9eS2A"},
    "change_account": {"name": "Ada L.", "email": "lovelace@example.org"},
    "confirm_email": {"code": "123456"},
    "end_other_sessions": {},
    "end_session": {},
    "offer_passkey": {},
    "add_passkey": {"name": "phone", "credential": _CREDENTIAL},
    "start_recovery": {},
    "stop_recovery": {},
    "remove_passkey": {},
    "set_reminders": {"enabled": False},
    "delete_me": {"confirm": "ada@example.org"},
    "create_token": {
        "name": "ci",
        "scopes": ["subdomains:read", "subdomains:write"],
        "names": ["*.example.net"],
        "networks": ["198.51.100.0/24"],
    },
    "change_token": {"networks": ["198.51.100.0/24", "2001:db8:7::/48"], "expires_at": _NEXT_YEAR},
    "revoke_token": {},
    "create_organization": {"name": "Example Cooperative"},
    "change_organization": {"name": "Example Collective"},
    "delete_organization": {"confirm": "example-cooperative-k3x9qd"},
    "change_member": {"role": "billing"},
    "remove_member": {},
    "invite_member": {"email": "bob@example.org", "role": "member"},
    "revoke_invitation": {},
    "accept_invitation": {"name": "Bob"},
    "rotate_token": {"overlap_seconds": 600},
    "register": {
        "fqdn": "blog.example.net",
        "nameservers": ["ns1.provider.example", "ns1.blog.example.net"],
        "glue": [{"host": "ns1.blog.example.net", "ipv4": "8.8.4.4"}],
        "ds_records": [_DS],
    },
    "delete": {},
    "update_nameservers": {
        "nameservers": ["ns1.provider.example", "ns2.provider.example"],
        "glue": [],
        "ds_records": [_DS],
    },
    "check_delegation": {
        "fqdn": "blog.example.net",
        "nameservers": ["ns1.provider.example"],
        "ds_records": [_DS],
    },
    "check_health": {},
    "retry": {},
    "renew": {"confirm": True, "max_credits": 10},
    "restore": {},
    "set_auto_renew": {"enabled": True, "max_credits": 20},
    "set_automatic_ds": {"enabled": True, "bootstrap": False},
    "push": {"to": "bob@example.org"},
    "withdraw": {},
    "accept": {},
    "decline": {},
    "open_ticket": {
        "subject": "How do I add a second nameserver?",
        "message": "My provider gave me two. Where does the second one go?",
        "fqdn": "blog.example.net",
    },
    "reply": {"message": "Found it, thank you."},
}
"""Examples of request bodies, by the name of the endpoint."""
ANSWERS: dict[str, dict[str, Any]] = {
    "challenge": {"challenge": _CHALLENGE},
    "sign_up": {
        "message": "If this address can get mail, a code is on its way to it.",
        "expires_in_seconds": 900,
    },
    "confirm_sign_up": {
        "user": _USER,
        "organization": _ME["organization"],
        "token": {
            **_TOKEN,
            "name": "first token",
            "scopes": [
                "account:read",
                "subdomains:read",
                "subdomains:write",
                "tickets:read",
                "tickets:write",
                "tokens:write",
                "organization:write",
            ],
            "names": None,
            "domains": None,
            "networks": None,
            "daily_credits": None,
            "last_used_at": None,
            "last_used_from": None,
        },
        "secret": _SHOWN_ONCE,
    },
    "accept_invitation": {
        "user": {**_USER, "id": 8, "email": "bob@example.org", "name": "Bob"},
        "organization": {**_ORGANIZATION, "role": "member"},
        "token": None,
        "secret": None,
    },
    "request_sign_in": {
        "message": "If this address can get mail, a code is on its way to it.",
        "expires_in_seconds": 900,
    },
    "confirm_sign_in": {"user": _USER, "organization": _ME["organization"], "session": _SESSION},
    "challenge_passkey": {"public_key": {"challenge": "mVlj…", "rpId": "names.example.net"}},
    "confirm_passkey": {"user": _USER, "organization": _ME["organization"], "session": _SESSION},
    "start_device": {
        "device_code": "GmRhmhcxhwAzkoEqiMEg_DnyEysNkuNhszIySk9eS2A",
        "user_code": "WDJB-MJHT",
        "verification_uri": "https://names.example.net/device",
        "verification_uri_complete": "https://names.example.net/device?code=WDJB-MJHT",
        "expires_in": 600,
        "interval": 5,
    },
    "get_device": {"device": _DEVICE},
    "allow_device": {"device": {**_DEVICE, "state": "allowed"}},
    "refuse_device": {"device": {**_DEVICE, "state": "refused"}},
    "poll_device": {"token": {**_TOKEN, "name": "ada's laptop"}, "secret": _SHOWN_ONCE},
    "change_account": {**_ME, "user": {**_USER, "name": "Ada L."}, "token": None},
    "confirm_email": {**_ME, "user": {**_USER, "email": "lovelace@example.org"}, "token": None},
    "list_sessions": {"sessions": [_SESSION], "page": _PAGE},
    "end_other_sessions": {"ended": 2},
    "end_session": {},
    "list_passkeys": {"passkeys": [_PASSKEY], "recovery": None},
    "offer_passkey": {"public_key": {"challenge": "mVlj…", "rp": {"id": "names.example.net"}}},
    "add_passkey": {"passkey": _PASSKEY},
    "start_recovery": {
        "passkeys": [_PASSKEY],
        "recovery": {
            "asked_at": _NOW,
            "ready_at": "2026-11-22T09:30:00.000000Z",
            "ends_at": "2026-11-29T09:30:00.000000Z",
        },
    },
    "stop_recovery": {"passkeys": [_PASSKEY], "recovery": None},
    "remove_passkey": {},
    "me": _ME,
    "set_reminders": {**_ME, "user": {**_USER, "reminders": False}},
    "export": {
        "account": {
            **_USER,
            "free_quota": None,
            "suspended_at": None,
            "signed_up_at": _NOW,
            "organization": _ME["organization"],
            "credit_balance": 100,
        },
        "subdomains": [{"id": 17, "fqdn": "blog.example.net", "registration_type": "free"}],
        **{
            each: []
            for each in (
                *(
                    "terms",
                    "payments",
                    "coupons",
                    "tokens",
                    "sessions",
                    "passkeys",
                    "recoveries",
                    "memberships",
                ),
                *("transfers", "tickets", "messages"),
            )
        },
        "activity": [_ACTIVITY],
    },
    "delete_me": {"deleted": {"id": 1}},
    "activity": {
        "activity": [_ACTIVITY],
        "page": _PAGE,
    },
    "credits": {
        "credit_balance": 100,
        "packages": [{"id": 1, "name": "Starter", "credits": 100, "price": "9.00", "currency": "EUR"}],
    },
    "payments": {
        "payments": [
            {
                "id": 5,
                "kind": "charge",
                "credits": -5,
                "balance_after": 95,
                "amount": None,
                "currency": None,
                "description": "Registration of shop.example.net (plus, 365 days)",
                "reference": "register:18:20261121T093000.000000Z",
                "subdomain": "shop.example.net",
                "created_at": _NOW,
            }
        ],
        "page": _PAGE,
    },
    "platform_domains": {
        "platform_domains": [
            {
                "id": 1,
                "domain": "example.net",
                "public_name": "Example Net",
                "description": "Names for everyone.",
                "registration_open": True,
                "idn": True,
                "dnssec_signed": True,
                "nameservers_min": 1,
                "nameservers_max": 13,
                "label_length_min": 1,
                "modes": [
                    {"mode": "free", "price_credits": 0, "renewal_price_credits": 0, "period_days": 365},
                    {"mode": "plus", "price_credits": 10, "renewal_price_credits": 10, "period_days": 365},
                ],
                "renewal_window_days": 60,
                "grace_days": 30,
                "trash_days": 30,
            }
        ],
        "page": _PAGE,
    },
    "free_subdomains": {"usage": {"used": 1, "limit": 5, "remaining": 4}},
    "list_tokens": {"tokens": [_TOKEN], "page": _PAGE},
    "create_token": {"token": _TOKEN, "secret": _SHOWN_ONCE},
    "get_token": {"token": _TOKEN},
    "change_token": {
        "token": {
            **_TOKEN,
            "networks": ["198.51.100.0/24", "2001:db8:7::/48"],
            "expires_at": _NEXT_YEAR,
        }
    },
    "revoke_token": {"token": {**_TOKEN, "revoked_at": _NOW}},
    "rotate_token": {"token": _TOKEN, "secret": _SHOWN_ONCE},
    "list_organizations": {"organizations": [_ORGANIZATION], "page": _PAGE},
    "create_organization": {"organization": _ORGANIZATION},
    "get_organization": {"organization": _ORGANIZATION},
    "change_organization": {"organization": {**_ORGANIZATION, "name": "Example Collective"}},
    "list_members": {"members": [_MEMBER], "page": _PAGE},
    "change_member": {"member": {**_MEMBER, "role": "billing"}},
    "delete_organization": {"deleted": {"id": 3}},
    "remove_member": {"removed": {"organization_id": 3, "user_id": 8}},
    "list_invitations": {"invitations": [_INVITATION], "page": _PAGE},
    "invite_member": {"invitation": _INVITATION},
    "revoke_invitation": {"revoked": {"organization_id": 3, "id": 4}},
    "list_subdomains": {"subdomains": [_SUBDOMAIN], "page": _PAGE},
    "register": _REGISTERED,
    "availability": {
        "availability": {
            "fqdn": "shop.example.net",
            "available": True,
            "reason": None,
            "unavailable_reason": None,
            "owned": False,
            "available_at": None,
            "modes": [{"mode": "free", "price_credits": 0, "renewal_price_credits": 0, "period_days": 365}],
        }
    },
    "get_subdomain": {"subdomain": _SUBDOMAIN},
    "delete": {"deleted": {"id": 17, "fqdn": "blog.example.net"}},
    "update_nameservers": {
        "subdomain": {
            **_SUBDOMAIN,
            "nameservers": ["ns1.provider.example", "ns2.provider.example"],
            "glue": [],
        },
        "provisioning": {**_PROVISIONING, "generation": 2, "published_generation": 2},
    },
    "retry": {"subdomain": _SUBDOMAIN, "provisioning": _PROVISIONING},
    "renew": {
        "subdomain": {**_SUBDOMAIN, "last_renewed_at": _NOW},
        "renewal": {
            "expires_at": _NEXT_YEAR,
            "renewal_available": False,
            "charged_credits": 5,
            "coupon": _COUPON,
        },
    },
    "restore": _REGISTERED,
    "delegation": {
        "delegation": {
            "stored": {**_DELEGATION, "generation": 1},
            "published": {
                "zone": "example.net",
                "serial": 42,
                "published_at": _NOW,
                "published_generation": 1,
            },
            "servers": [
                {
                    "server": "ns1.example.net",
                    "role": "primary",
                    "serial": 42,
                    **_DELEGATION,
                    "matches": True,
                    "difference": None,
                    "error": None,
                },
                {
                    "server": "ns2.example.net",
                    "role": "secondary",
                    "serial": None,
                    **dict.fromkeys(_DELEGATION),
                    "matches": None,
                    "difference": None,
                    "error": "The name server did not answer in time.",
                },
            ],
            "in_agreement": False,
            "summary": (
                "ns1.example.net answers with the stored delegation of blog.example.net. ns2.example.net did not answer in time. "
                "Ask again in a while. If the problem persists, open a ticket."
            ),
        },
        "provisioning": _PROVISIONING,
    },
    "get_health": {"health": _HEALTH},
    "check_health": {"health": _HEALTH},
    "check_delegation": {
        "check": {
            "fqdn": "blog.example.net",
            "state": "degraded",
            "checked_at": _NOW,
            "findings": [_FINDING],
        }
    },
    "timeline": {
        "timeline": [
            {
                **_EVENT,
                "event": "registered",
                "at": _NOW,
                "past": True,
                "by": "user",
                "expires_at": _NEXT_YEAR,
                "charged_credits": 0,
            },
            {
                **_EVENT,
                "event": "renewal_opens",
                "at": "2027-09-22T09:30:00.000000Z",
                "detail": "From then on it can be renewed.",
            },
            {
                **_EVENT,
                "event": "expires",
                "at": _NEXT_YEAR,
                "detail": "After the expiry the name stays in the DNS and can be renewed until the end of its grace period.",
            },
            {
                **_EVENT,
                "event": "trashed",
                "at": "2027-12-21T09:30:00.000000Z",
                "detail": "Unless it is renewed before: it leaves the account and the DNS.",
            },
            {
                **_EVENT,
                "event": "purged",
                "at": "2028-01-20T09:30:00.000000Z",
                "detail": "Until then it can be restored from the trash.",
            },
            {
                **_EVENT,
                "event": "released",
                "at": "2028-01-27T09:30:00.000000Z",
                "detail": "From then on any user may register the name.",
            },
        ],
        "allowed_actions": ["update_nameservers", "set_auto_renew", "delete"],
        "renewal_available": False,
        "warnings": [],
    },
    "get_auto_renew": {"auto_renew": _AUTO_RENEW},
    "set_auto_renew": {"subdomain": _SUBDOMAIN, "auto_renew": _AUTO_RENEW},
    "get_automatic_ds": {"automatic_ds": {**_AUTOMATIC_DS, "bootstrap": True}},
    "set_automatic_ds": {"automatic_ds": _AUTOMATIC_DS},
    "push": {"transfer": _TRANSFER},
    "list_transfers": {"transfers": [_TRANSFER], "page": _PAGE},
    "get_transfer": {"transfer": _TRANSFER},
    "withdraw": {"transfer": {**_TRANSFER, "state": "withdrawn", "ended_at": "2026-11-22T09:30:00.000000Z"}},
    "accept": {"transfer": {**_RECEIVED, "state": "accepted"}},
    "decline": {"transfer": {**_RECEIVED, "state": "declined"}},
    "list_tickets": {"tickets": [_TICKET], "page": _PAGE},
    "open_ticket": _OPEN_TICKET,
    "get_ticket": _OPEN_TICKET,
    "reply": _OPEN_TICKET,
}
"""Examples of answers without `ok`, by the name of the endpoint."""
