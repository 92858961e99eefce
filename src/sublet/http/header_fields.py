"""The header fields of a request, each found by its name: they are asked for half a dozen times, and looked through once."""

from collections.abc import Iterable


class HeaderFields:
    """Header fields by lower-case name; of several of one name all are kept, in their order (RFC 9110, section 5.2)."""

    __slots__ = ("_values",)

    def __init__(self, fields: Iterable[tuple[bytes, bytes]]) -> None:
        """Take them as ASGI has them: the names in lower case."""
        self._values: dict[bytes, list[bytes]] = {}
        for name, value in fields:
            self._values.setdefault(name, []).append(value)

    def __contains__(self, name: str) -> bool:
        """Tell whether there is a field of this name."""
        return name.encode("latin-1") in self._values

    def get(self, name: str) -> str | None:
        """Return the first value of this name, or None."""
        found = self._values.get(name.encode("latin-1"))
        return found[0].decode("latin-1") if found else None

    def getlist(self, name: str) -> list[str]:
        """Return all values of this name."""
        return [value.decode("latin-1") for value in self._values.get(name.encode("latin-1"), ())]
