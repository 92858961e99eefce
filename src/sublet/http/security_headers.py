"""The headers of every answer that keep browsers from caching the answer, guessing its type, framing or
executing it.

Only RDAP has an `Access-Control-…` header, because pages of other sites shouldn't use tokens.
"""

SECURITY_HEADERS = {
    "cache-control": "no-store",
    "content-security-policy": "default-src 'none'; base-uri 'none'; "
    "form-action 'none'; frame-ancestors 'none'",
    "cross-origin-opener-policy": "same-origin",
    "cross-origin-resource-policy": "same-origin",
    "referrer-policy": "no-referrer",
    "strict-transport-security": "max-age=31536000",
    "x-content-type-options": "nosniff",
    "x-frame-options": "DENY",
}
"""The headers by lower-case name. `strict-transport-security` has no effect without TLS (RFC 6797, section
8.1), so it is always sent.
"""
ENCODED_SECURITY_HEADERS = [
    (name.encode("ascii"), value.encode("ascii")) for name, value in SECURITY_HEADERS.items()
]
"""The headers in the form that ASGI takes."""
