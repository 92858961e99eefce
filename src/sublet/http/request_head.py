"""Check the head of a request: its size, HTTP version, `Host`, `Transfer-Encoding` and path."""

import re

from starlette.datastructures import Headers
from starlette.types import Scope

from sublet.errors import InvalidRequest, UriTooLong

URI_MAX_BYTES = 16 * 1024
"""The maximum length of path and query together; RFC 9110, section 4.1, recommends at least 8,000 bytes."""
_CONTROL = re.compile(r"[\x00-\x1f\x7f]")
_HOST = re.compile(r"(?:\[[0-9A-Fa-f:.]+\]|[A-Za-z0-9._-]*)(?::[0-9]{0,5})?")
"""A host name, an address or nothing, with or without a port (RFC 9110, section 7.2). Names of containers have underscores."""


def check_head(scope: Scope, fields: Headers) -> None:
    """Raise if a proxy and this service could read the head differently.

    Not checked: an absolute URI in the request line, which uvicorn hides and the proxy handles.

    Raises, in this order:
        UriTooLong: path and query are longer than `URI_MAX_BYTES`.
        InvalidRequest: the version is neither 1.0 nor 1.1; `Host` is missing, repeated or malformed; HTTP/1.0 has
            `Transfer-Encoding`; the path has an empty segment or a control character.
    """
    path, version = scope["path"], scope["http_version"]
    hosts = fields.getlist("host")
    if len(scope["raw_path"]) + len(scope["query_string"]) >= URI_MAX_BYTES:
        raise UriTooLong(f"Path and query are too long. Send {URI_MAX_BYTES} bytes at most.")
    if version not in ("1.0", "1.1"):
        raise InvalidRequest(f"HTTP/{version} is not supported. Send the request in HTTP/1.1.")
    if len(hosts) > 1 or (version == "1.1" and not hosts):
        raise InvalidRequest("HTTP/1.1 needs one header Host. Send it once.")
    if hosts and not _HOST.fullmatch(hosts[0]):
        raise InvalidRequest(
            "The header Host is malformed. Send a host name or an address, with or without a port."
        )
    if version == "1.0" and "transfer-encoding" in fields:
        raise InvalidRequest("HTTP/1.0 has no Transfer-Encoding. Send Content-Length, or use HTTP/1.1.")
    if "//" in path:
        raise InvalidRequest("The path has an empty segment (`//`). Remove it.")
    if _CONTROL.search(path):
        raise InvalidRequest("The path has a control character. Remove it.")
