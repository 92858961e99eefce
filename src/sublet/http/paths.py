"""From a request's path to what is there: by its segments, however many paths there are.

Starlette's router tries one expression after the other, which for our last path takes as long as finding the row in the database.
"""

from dataclasses import dataclass, field

from starlette.types import ASGIApp, Receive, Scope, Send


@dataclass(slots=True)
class _Node:
    """What a path so far may be followed by: `fixed` segments, or any other as the value of a path parameter."""

    app: ASGIApp | None = None
    names: tuple[str, ...] = ()
    fixed: dict[str, "_Node"] = field(default_factory=dict)
    any: "_Node | None" = None


class Paths:
    """An ASGI application: those of the paths it is told, and for everything else another one.

    A path has `{parameters}` as whole segments; their values, percent-decoded and never empty, come in `path_params`. A fixed
    segment wins over a parameter, without going back where the path then leads nowhere.
    """

    def __init__(self, otherwise: ASGIApp) -> None:
        self._otherwise = otherwise
        self._root = _Node()

    def add(self, path: str, app: ASGIApp) -> None:
        """Have an application answer a path, such as `/api/v1/subdomains/{fqdn}`."""
        node = self._root
        names = []
        for segment in path.split("/"):
            if segment.startswith("{"):
                names.append(segment.strip("{}"))
                node.any = node.any or _Node()
                node = node.any
            else:
                node = node.fixed.setdefault(segment, _Node())
        node.app, node.names = app, tuple(names)

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Find who answers, and have it answer."""
        found = self._find(scope["path"]) if scope["type"] == "http" else None
        if found is None:
            await self._otherwise(scope, receive, send)
            return
        app, scope["path_params"] = found
        await app(scope, receive, send)

    def _find(self, path: str) -> tuple[ASGIApp, dict[str, str]] | None:
        node = self._root
        values = []
        for segment in path.split("/"):
            following = node.fixed.get(segment)
            if following is None:
                if node.any is None or not segment:
                    return None
                following = node.any
                values.append(segment)
            node = following
        if node.app is None:
            return None
        return node.app, dict(zip(node.names, values, strict=True))
