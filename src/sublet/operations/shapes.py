"""The Structs that operations of several nouns share, and the types of their members."""

from collections.abc import Collection, Iterable
from datetime import datetime
from typing import Annotated, Any, ClassVar, Literal, Self

from msgspec import Meta, Struct, convert

from sublet.credits.coupons import COUPON_ACTIONS
from sublet.platform_domains.model import MODES

NOW = "2026-11-21T09:30:00.000000Z"
NEXT_YEAR = "2027-11-21T09:30:00.000000Z"
COUPON = {"code": "AUTUMN", "kind": "percent", "value": 50, "discount_credits": 5}
PAGE = {"limit": 100, "next_cursor": None, "has_more": False}
QUOTE: dict[str, Any] = {
    "action": "register",
    "fqdn": "shop.example.net",
    "registration_mode": "plus",
    "period_days": 365,
    "list_price": 10,
    "discount": 5,
    "price": 5,
    "balance": 100,
    "balance_after": 95,
    "sufficient": True,
    "shortfall": 0,
    "coupon": COUPON,
    "new_expires_at": NEXT_YEAR,
}


class Body(Struct, kw_only=True, forbid_unknown_fields=True):
    """The base of request bodies, and of the objects in them.

    `read_structs.py` refuses wrong types (400). Lengths and ranges in the types are only documentation: the
    rules check values, so that one refusal (422) lists all wrong values. A member is `UNSET` if it was left
    out and null has a meaning of its own. A member without a default is required; it may be null if its type
    says so, such as `note: str | None`.
    """

    required_members: ClassVar[tuple[str, ...]] = ()
    """The other required members, which are optional in the type, so that one refusal (422) lists missing and
    invalid members.
    """
    required_alternatives: ClassVar[tuple[tuple[str, ...], ...]] = ()
    """Sets of members, at least one of which is required."""


class TextOrObject(Body):
    """The base of objects that may also be sent as a text. Each subclass is a form of the object."""

    text_description: ClassVar[str]
    """The documentation of the text."""

    @classmethod
    def choose(cls, members: Collection[str]) -> type["TextOrObject"]:
        """Return the form that has these members."""
        raise NotImplementedError


class NoBody(Body):
    """An empty object, or no body."""


class Shape(Struct):
    """The base of objects in answers, which have all their members.

    A member may be null, but isn't left out.
    """

    changed_by_requests: ClassVar[tuple[str, ...]] = ()
    """Of an object with an `ETag`, the members that requests change. The service changes the others, such as
    a name's status, itself.
    """

    @classmethod
    def of(cls, value: Any) -> Self:
        """Convert an object that has an attribute for each member of the shape."""
        return convert(value, cls, from_attributes=True)


class Success(Shape, kw_only=True):
    """The base of all successful answers."""

    ok: Literal[True] = True


def one_of(words: Iterable[str]) -> Meta:
    """Return the documentation of a text that is one of these words."""
    return Meta(extra_json_schema={"enum": sorted(words)})


Id = Annotated[int, Meta(ge=1, description="The identifier.")]
Moment = Annotated[datetime, Meta(tz=True, description="RFC 3339 in UTC, with `Z`.")]
Credits = Annotated[int, Meta(ge=0, description="A number of credits.")]
Count = Annotated[int, Meta(ge=0)]
Days = Annotated[int, Meta(ge=0, description="A number of days.")]
Price = Annotated[
    str, Meta(pattern=r"^[0-9]+(\.[0-9]+)?$", description="An amount of money as a decimal string.")
]
Currency = Annotated[str, Meta(pattern="^[A-Z]{3}$", description="ISO 4217.")]
HostName = Annotated[
    str,
    Meta(max_length=253, description="A host name: lower-case A-labels without the final dot."),
]
Mode = Annotated[str, one_of(MODES)]
Rows = list[dict[str, Any]]


class PageShape(Shape):
    """The position of a page in its list. `next_cursor` is null on the last page."""

    limit: Annotated[int, Meta(ge=1, le=500)]
    next_cursor: str | None
    has_more: bool


class DeletedObjectShape(Shape):
    """The object that was deleted."""

    id: Id


class DeletedObjectAnswer(Success, kw_only=True):
    """The object is deleted."""

    deleted: DeletedObjectShape


class CouponShape(Shape):
    """A coupon that was used, and its discount."""

    code: str
    kind: Annotated[str, one_of(("percent", "fixed"))]
    value: Count
    discount_credits: Credits


class QuoteShape(Shape):
    """The price of a paid request, which `confirm: true` completes.

    `new_expires_at` is the name's expiry after the request.
    """

    action: Annotated[str, one_of(COUPON_ACTIONS)]
    fqdn: HostName
    registration_mode: Mode
    period_days: Days
    list_price: Credits
    discount: Credits
    price: Credits
    balance: Credits
    balance_after: int
    sufficient: bool
    shortfall: Credits
    coupon: CouponShape | None
    new_expires_at: Moment


class FieldErrorShape(Shape):
    """A wrong field."""

    field: str
    code: str
    message: str


HostNameText = Annotated[
    str,
    Meta(
        max_length=254,
        description="A host name of at least two labels, in any case, with "
        "or without the final dot, as U-labels "
        "or A-labels.",
    ),
]
Label = Annotated[str, Meta(max_length=63, description="A label, as a U-label or an A-label.")]


class PageQuery(Struct, kw_only=True):
    """The query parameters of all lists."""

    limit: Annotated[int, Meta(ge=1, le=500, description="The maximum number of items on a page.")] = 100
    cursor: (
        Annotated[
            str,
            Meta(min_length=1, max_length=512, description="The `page.next_cursor` of the previous page."),
        ]
        | None
    ) = None
