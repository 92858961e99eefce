"""`replace` for structs: msgspec's, with the signature of the one for dataclasses, so that mypy checks its
arguments.

Not checked by mypy: that the value is a struct. A dataclass raises TypeError.
"""

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from dataclasses import replace
else:
    from msgspec.structs import replace

__all__ = ["replace"]
