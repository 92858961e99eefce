"""JSON Schemas of RDAP answers, written from RFC 9083, RFC 7095 (jCard) and RFC 9537.

Members that the RFCs don't have are refused.
"""

from typing import Any

import jsonschema

STATUSES = [
    *("validated", "renew prohibited", "update prohibited", "transfer prohibited", "delete prohibited"),
    *("proxy", "private", "removed", "obscured", "associated", "active", "inactive", "locked"),
    *("pending create", "pending renew", "pending transfer", "pending update", "pending delete"),
    *("add period", "auto renew period", "client delete prohibited", "client hold"),
    *("client renew prohibited", "client transfer prohibited", "client update prohibited"),
    *("pending restore", "redemption period", "renew period", "server delete prohibited"),
    *("server renew prohibited", "server transfer prohibited", "server update prohibited", "server hold"),
    "transfer period",
]
"""RFC 9083, section 10.2.2, and RFC 8056, section 2."""
EVENTS = [
    *("registration", "reregistration", "last changed", "expiration", "deletion", "reinstantiation"),
    *("transfer", "locked", "unlocked", "last update of RDAP database"),
]
"""RFC 9083, section 10.2.3."""
ROLES = [
    *("registrant", "technical", "administrative", "abuse", "billing", "registrar", "reseller"),
    *("sponsor", "proxy", "notifications", "noc"),
]
"""RFC 9083, section 10.2.4."""
_TEXT: dict[str, Any] = {"type": "string", "minLength": 1}
_TEXTS = {"type": "array", "items": _TEXT, "minItems": 1}
_URL = {"type": "string", "pattern": r"^(https?://|mailto:)\S+$"}
_INSTANT = {
    "type": "string",
    "pattern": r"^[0-9]{4}-[0-9]{2}-[0-9]{2}T[0-9]{2}:[0-9]{2}:[0-9]{2}(\.[0-9]+)?(Z|[+-][0-9]{2}:[0-9]{2})$",
}
"""RFC 3339, section 5.6."""
_LDH_NAME = {
    "type": "string",
    "pattern": r"^[a-z0-9]([a-z0-9-]*[a-z0-9])?(\.[a-z0-9]([a-z0-9-]*[a-z0-9])?)+$",
}


def _object(required: dict[str, Any], optional: dict[str, Any] | None = None) -> dict[str, Any]:
    return {
        "type": "object",
        "required": list(required),
        "properties": required | (optional or {}),
        "additionalProperties": False,
    }


def _list(items: dict[str, Any], least: int = 1) -> dict[str, Any]:
    return {"type": "array", "items": items, "minItems": least}


_LINK = _object(
    {"value": _URL, "rel": _TEXT, "href": _URL},
    {"type": {"type": "string", "pattern": r"^[a-z]+/[a-z+.-]+$"}, "title": _TEXT, "hreflang": _TEXTS},
)
_NOTICE = _object({"title": _TEXT, "description": _TEXTS}, {"links": _list(_LINK), "type": _TEXT})
_EVENT = _object({"eventAction": {"enum": EVENTS}, "eventDate": _INSTANT}, {"links": _list(_LINK)})
_CONFORMANCE = {
    "type": "array",
    "items": {"enum": ["rdap_level_0", "redacted"]},
    "uniqueItems": True,
    "contains": {"const": "rdap_level_0"},
}
_TOPMOST = {"rdapConformance": _CONFORMANCE, "lang": {"const": "en"}}
_NOTICES = {"notices": _list(_NOTICE)}
_CARD = {
    "type": "array",
    "prefixItems": [
        {"const": "vcard"},
        {
            "type": "array",
            "prefixItems": [{"const": ["version", {}, "text", "4.0"]}],
            "contains": {"type": "array", "prefixItems": [{"const": "fn"}]},
            "items": {
                "type": "array",
                "prefixItems": [
                    {"enum": ["version", "fn", "kind", "org", "email", "url", "contact-uri"]},
                    {"type": "object"},
                    {"enum": ["text", "uri"]},
                    _TEXT,
                ],
                "minItems": 4,
                "maxItems": 4,
            },
        },
    ],
    "minItems": 2,
    "maxItems": 2,
}
_ENTITY_MEMBERS = (
    {
        "objectClassName": {"const": "entity"},
        "handle": _TEXT,
        "vcardArray": _CARD,
        "roles": _list({"enum": ROLES}),
        "links": _list(_LINK),
    },
    {"entities": _list({"$ref": "#/$defs/entity"})},
)
_ENTITY = _object(*_ENTITY_MEMBERS)
_NAMESERVER_MEMBERS = (
    {"objectClassName": {"const": "nameserver"}, "handle": _TEXT, "ldhName": _LDH_NAME},
    {
        "unicodeName": _TEXT,
        "ipAddresses": {
            **_object(
                {},
                {
                    "v4": _list({"type": "string", "format": "ipv4"}),
                    "v6": _list({"type": "string", "format": "ipv6"}),
                },
            ),
            "minProperties": 1,
        },
        "links": _list(_LINK),
    },
)
_DS = _object(
    {
        "keyTag": {"type": "integer", "minimum": 0, "maximum": 65535},
        "algorithm": {"type": "integer", "minimum": 0, "maximum": 255},
        "digest": {"type": "string", "pattern": "^([0-9a-fA-F]{2})+$"},
        "digestType": {"type": "integer", "minimum": 0, "maximum": 255},
    }
)
_REDACTED = _object(
    {
        "name": {
            **_object({}, {"type": _TEXT, "description": _TEXT}),
            "minProperties": 1,
            "maxProperties": 1,
        },
        "method": {"enum": ["removal", "emptyValue", "partialValue", "replacementValue"]},
    },
    {
        "prePath": {"type": "string", "pattern": r"^\$"},
        "pathLang": {"const": "jsonpath"},
        "reason": _object({}, {"type": _TEXT, "description": _TEXT}),
    },
)
"""RFC 9537, section 4.2: a removed member has `prePath`, because the answer has no place for a `postPath`."""
_DEFS = {"entity": _ENTITY}

SCHEMAS: dict[str, dict[str, Any]] = {
    "domain": {
        **_object(
            {
                **_TOPMOST,
                **_NOTICES,
                "objectClassName": {"const": "domain"},
                "handle": _TEXT,
                "ldhName": _LDH_NAME,
                "status": _list({"enum": STATUSES}),
                "events": _list(_EVENT),
                "secureDNS": _object(
                    {"delegationSigned": {"type": "boolean"}},
                    {"zoneSigned": {"type": "boolean"}, "dsData": _list(_DS)},
                ),
                "entities": _list(_ENTITY),
                "links": _list(_LINK),
                "redacted": _list(_REDACTED),
            },
            {"unicodeName": _TEXT, "nameservers": _list(_object(*_NAMESERVER_MEMBERS))},
        ),
        "$defs": _DEFS,
    },
    "nameserver": {
        **_object(
            {
                **_TOPMOST,
                **_NOTICES,
                **_NAMESERVER_MEMBERS[0],
                "events": _list(_EVENT),
            },
            _NAMESERVER_MEMBERS[1],
        ),
        "$defs": _DEFS,
    },
    "entity": {
        **_object(
            {**_TOPMOST, **_NOTICES, **_ENTITY_MEMBERS[0]}, {**_ENTITY_MEMBERS[1], "events": _list(_EVENT)}
        ),
        "$defs": _DEFS,
    },
    "help": _object({**_TOPMOST, **_NOTICES}),
    "error": _object(
        {
            **_TOPMOST,
            "errorCode": {"type": "integer", "minimum": 300, "maximum": 599},
            "title": _TEXT,
            "description": _TEXTS,
        },
        _NOTICES,
    ),
}
"""The schema of each kind of answer."""
_VALIDATORS = {
    kind: jsonschema.Draft202012Validator(
        schema, format_checker=jsonschema.Draft202012Validator.FORMAT_CHECKER
    )
    for kind, schema in SCHEMAS.items()
}


def check_answer(kind: str, answer: Any) -> None:
    """Fail unless an answer has the form that the RFCs give to its kind."""
    assert [each.message for each in _VALIDATORS[kind].iter_errors(answer)] == []
    if "rdapConformance" in answer and "redacted" in answer:
        assert "redacted" in answer["rdapConformance"]
        for each in answer["redacted"]:
            assert each["method"] != "removal" or "prePath" in each
