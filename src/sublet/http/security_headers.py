"""The security headers of every answer: browsers store, guess, frame and run nothing.

There are no `Access-Control-…` headers: a token belongs into the user's program, not into another site's page.
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
