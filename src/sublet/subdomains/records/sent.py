"""What a request says about records, and its conversion to what the rules take."""

from typing import Annotated

from msgspec import Meta

from sublet.dns.types import RecordSetInput
from sublet.operations.shapes import Body
from sublet.subdomains.records.rule import (
    TTL_SECONDS_DEFAULT,
    TTL_SECONDS_MAX,
    TTL_SECONDS_MIN,
    VALUES_MAX,
)

Owner = Annotated[
    str,
    Meta(
        max_length=254,
        description="The owner, relative to the name: `@` for the name "
        "itself, `www`, `_acme-challenge`, `*`. A "
        "full name is accepted too.",
    ),
]
Type = Annotated[str, Meta(max_length=16, description="The type, such as `A`, in any case.")]
Ttl = Annotated[
    int,
    Meta(
        ge=TTL_SECONDS_MIN,
        le=TTL_SECONDS_MAX,
        description=f"The TTL in seconds, by default {TTL_SECONDS_DEFAULT}.",
    ),
]
Values = Annotated[
    list[Annotated[str, Meta(max_length=16_384)]],
    Meta(
        max_length=VALUES_MAX,
        description="The values in the presentation form of zone files. A "
        "TXT value may be sent without quotation "
        "marks.",
    ),
]


class RecordSetBody(Body):
    """An RRset at or below the name."""

    name: Owner
    type: Type
    values: Values
    ttl: Ttl | None = None


Records = Annotated[list[RecordSetBody], Meta(max_length=500, description="The RRsets, in any order.")]


def record_set_inputs(entries: list[RecordSetBody]) -> tuple[RecordSetInput, ...]:
    """Convert RRsets to the type that the rules take."""
    return tuple(RecordSetInput(each.name, each.type, tuple(each.values), each.ttl) for each in entries)
