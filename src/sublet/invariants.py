"""What must hold, whatever happens: the shape in which `sublet doctor` names what does not."""

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Notice:
    """What the operator should know though no invariant is broken: its name, the object, a sentence that says what it is."""

    notice: str
    object_type: str
    object_id: int | str
    message: str


@dataclass(frozen=True, slots=True)
class Violation:
    """One broken invariant: its name, the offending object, a sentence that says what is wrong with it."""

    invariant: str
    object_type: str
    object_id: int | str
    message: str
