"""A text that must not be shown by accident."""

from typing import Any


class Secret:
    """A secret, such as a token's. `reveal` returns it; str, repr and logs don't show it."""

    __slots__ = ("_text",)

    def __init__(self, text: str) -> None:
        self._text = text

    def reveal(self) -> str:
        """Return the secret."""
        return self._text

    def __repr__(self) -> str:
        return "Secret('…')"

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Secret) and other._text == self._text

    def __hash__(self) -> int:
        return hash(self._text)


def decode(kind: type, value: Any) -> Any:
    """Return a `Secret` of a text; the hook of msgspec for types that it doesn't know."""
    if kind is Secret:
        return Secret(value)
    raise NotImplementedError(kind)
