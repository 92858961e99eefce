"""The findings of `sublet doctor`."""

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Notice:
    """Something that the operator should know although no invariant is broken: its name, the object, a sentence."""

    notice: str
    object_type: str
    object_id: int | str
    message: str


@dataclass(frozen=True, slots=True)
class Violation:
    """A broken invariant: its name, the object, and a sentence about the fault."""

    invariant: str
    object_type: str
    object_id: int | str
    message: str
