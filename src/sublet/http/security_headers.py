"""The headers that every answer has, whichever part of the service gives it: nothing is stored, guessed, framed or run.

There are no `Access-Control-…` headers among them: a token belongs into a program of its owner's, not into a page of somebody else's.
"""

SECURITY_HEADERS = {
    "cache-control": "no-store",
    "content-security-policy": "default-src 'none'; base-uri 'none'; form-action 'none'; frame-ancestors 'none'",
    "cross-origin-resource-policy": "same-origin",
    "referrer-policy": "no-referrer",
    "strict-transport-security": "max-age=31536000",
    "x-content-type-options": "nosniff",
    "x-frame-options": "DENY",
}
"""By lower-case name. A browser heeds `strict-transport-security` over TLS alone (RFC 6797, section 8.1), so it is sent always."""
ENCODED = [(name.encode("ascii"), value.encode("ascii")) for name, value in SECURITY_HEADERS.items()]
"""The same as ASGI has headers."""
