"""The stylesheet, the scripts and the pictures of the pages: read and compressed once, and served under names
with their digest.
"""

import gzip
import hashlib
from collections.abc import Mapping
from functools import partial
from importlib.resources import files
from pathlib import PurePosixPath

from starlette.requests import Request
from starlette.responses import Response
from starlette.routing import Route

ASSETS_PATH = "/assets"
_TYPES = {
    ".css": "text/css; charset=utf-8",
    ".js": "text/javascript; charset=utf-8",
    ".svg": "image/svg+xml",
    ".png": "image/png",
    ".webp": "image/webp",
}
"""The file name suffixes that assets and the operator's logo may have."""
_HEADERS = {"cache-control": "public, max-age=31536000, immutable"}


class CompressedBody:
    """The body of an answer, compressed once.

    Not for a page that repeats the request beside data of a session, which its length would reveal (BREACH).
    """

    def __init__(self, media_type: str, body: bytes) -> None:
        self._media_type = media_type
        self._body = body
        self._compressed = gzip.compress(body, mtime=0)

    def answer(self, request: Request, headers: Mapping[str, str]) -> Response:
        """Return an answer with these headers.

        It is compressed if the client accepts this, and if it is then shorter.
        """
        body, sent = self._body, {**headers, "vary": "accept-encoding"}
        if "gzip" in request.headers.get("accept-encoding", "") and len(self._compressed) < len(body):
            body, sent["content-encoding"] = self._compressed, "gzip"
        return Response(body, headers=sent, media_type=self._media_type)


async def _serve(asset: CompressedBody, request: Request) -> Response:
    return asset.answer(request, _HEADERS)


class Assets:
    """The assets by name: the files of this package, and `configured` ones from the operator's settings,
    which replace files of the same name.
    """

    def __init__(self, configured: Mapping[str, bytes]) -> None:
        own = {each.name: each.read_bytes() for each in files("sublet.web").joinpath("assets").iterdir()}
        self._found: dict[str, CompressedBody] = {}
        self._urls: dict[str, str] = {}
        for name, body in sorted((own | dict(configured)).items()):
            self._add(name, self._with_imports(body) if name.endswith(".js") else body)

    def url(self, name: str) -> str:
        """Return the path of an asset, which changes with its content."""
        return self._urls[name]

    def routes(self) -> list[Route]:
        """Return a route for each asset. Another path below `ASSETS_PATH` is an unknown path."""
        return [Route(f"{ASSETS_PATH}/{name}", partial(_serve, asset)) for name, asset in self._found.items()]

    def _add(self, name: str, body: bytes) -> None:
        digest = hashlib.sha256(body).hexdigest()[:16]
        self._found[f"{digest}-{name}"] = CompressedBody(_TYPES[PurePosixPath(name).suffix], body)
        self._urls[name] = f"{ASSETS_PATH}/{digest}-{name}"

    def _with_imports(self, body: bytes) -> bytes:
        """Return a script with its imports changed to the served names.

        A script can only import scripts whose names sort before its own.
        """
        for name, url in self._urls.items():
            body = body.replace(f'"./{name}"'.encode(), f'"{url}"'.encode())
        return body
