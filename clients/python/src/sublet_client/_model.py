"""What all results share: a form for people that fits in a line."""

from datetime import datetime
from typing import Any

import msgspec

LINE_CHARACTERS_MAX = 120
IDENTIFYING = ("id", "fqdn", "ticket_number", "name", "email", "status", "state", "expires_at")
"""The members that are shown before the others."""


class Model(msgspec.Struct, frozen=True, kw_only=True):
    """A result. `repr` fits in a line: of a large one it has only the members that identify it, and as many
    of the others as fit.
    """

    def __repr__(self) -> str:
        whole = self._line(self.__struct_fields__)
        if len(whole) <= LINE_CHARACTERS_MAX:
            return whole
        shown: list[str] = []
        for name in (*IDENTIFYING, *self.__struct_fields__):
            if name in self.__struct_fields__ and name not in shown:
                longer = [*shown, name]
                if len(self._line(longer, "…")) <= LINE_CHARACTERS_MAX:
                    shown = longer
        return self._line(shown, "…")

    def _line(self, names: "tuple[str, ...] | list[str]", end: str = "") -> str:
        members = [f"{name}={_shown(getattr(self, name))}" for name in names]
        return f"{type(self).__name__}({', '.join([*members, end] if end else members)})"


def _shown(value: Any) -> str:
    return value.isoformat() if isinstance(value, datetime) else repr(value)
