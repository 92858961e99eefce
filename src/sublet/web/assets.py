"""The stylesheet, the scripts and the pictures of the pages. They are read and compressed once, and their names contain their digest."""

import gzip
import hashlib
from collections.abc import Mapping
from dataclasses import dataclass
from importlib.resources import files
from pathlib import PurePosixPath

from starlette.requests import Request
from starlette.responses import Response

ASSETS_PATH = "/assets"
_TYPES = {
    ".css": "text/css; charset=utf-8",
    ".js": "text/javascript; charset=utf-8",
    ".svg": "image/svg+xml",
    ".png": "image/png",
    ".webp": "image/webp",
}
TYPES = tuple(_TYPES)
"""The endings of assets, and of the operator's logo."""
_HEADERS = {"cache-control": "public, max-age=31536000, immutable", "vary": "accept-encoding"}
_GZIP_LEVEL = 9


@dataclass(frozen=True, slots=True)
class _Asset:
    media_type: str
    body: bytes
    compressed: bytes


class Assets:
    """The assets by name. `more` are assets from the operator's settings."""

    def __init__(self, more: Mapping[str, bytes]) -> None:
        own = {each.name: each.read_bytes() for each in files("sublet.web").joinpath("assets").iterdir()}
        self._found: dict[str, _Asset] = {}
        self._urls: dict[str, str] = {}
        for name, body in sorted((own | dict(more)).items()):
            self._add(name, self._with_imports(body) if name.endswith(".js") else body)

    def url(self, name: str) -> str:
        """Return the path of an asset, which changes with its content."""
        return self._urls[name]

    async def serve(self, request: Request) -> Response:
        """Answer a request for an asset."""
        asset = self._found.get(request.path_params["name"])
        if asset is None:
            return Response(status_code=404)
        headers = dict(_HEADERS)
        body = asset.body
        if "gzip" in request.headers.get("accept-encoding", "") and len(asset.compressed) < len(body):
            headers["content-encoding"], body = "gzip", asset.compressed
        return Response(body, headers=headers, media_type=asset.media_type)

    def _add(self, name: str, body: bytes) -> None:
        digest = hashlib.sha256(body).hexdigest()[:16]
        self._found[f"{digest}-{name}"] = _Asset(
            _TYPES[PurePosixPath(name).suffix], body, gzip.compress(body, _GZIP_LEVEL, mtime=0)
        )
        self._urls[name] = f"{ASSETS_PATH}/{digest}-{name}"

    def _with_imports(self, body: bytes) -> bytes:
        """Return a script whose imports have the served names. A script may only import scripts that sort before it."""
        for name, url in self._urls.items():
            body = body.replace(f'"./{name}"'.encode(), f'"{url}"'.encode())
        return body
