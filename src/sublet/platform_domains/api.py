"""The API of platform domains (spec, part 4, "Account and credits")."""

from sublet.db import Tx
from sublet.ids import Position
from sublet.operations import tags
from sublet.operations.call import Answer, Call
from sublet.operations.operation import API, Operations
from sublet.operations.paging import Paging
from sublet.operations.shapes import (
    PAGE,
    Count,
    Credits,
    Days,
    HostName,
    Id,
    Mode,
    PageQuery,
    PageShape,
    Shape,
    Success,
)
from sublet.platform_domains import store
from sublet.platform_domains.model import MODES, Offer, PlatformDomain

api = Operations(API, tags.ACCOUNT)


class ModeShape(Shape):
    """A registration mode that a platform domain offers."""

    mode: Mode
    price_credits: Credits
    renewal_price_credits: Credits
    period_days: Days


class PlatformDomainShape(Shape):
    """A platform domain with its rules.

    `record_types` are the types of records that names may have instead of nameservers. It is empty if names
    can't have records.
    """

    id: Id
    domain: HostName
    public_name: str
    description: str
    registration_open: bool
    idn: bool
    dnssec_signed: bool
    nameservers_min: Count
    nameservers_max: Count
    label_length_min: Count
    record_types: list[str]
    modes: list[ModeShape]
    renewal_window_days: Days
    grace_days: Days
    trash_days: Days


class PlatformDomainsAnswer(Success, kw_only=True):
    """The platform domains that this account can see, newest first."""

    platform_domains: list[PlatformDomainShape]
    page: PageShape


def platform_domain_shape(platform_domain: PlatformDomain, offers: list[Offer]) -> PlatformDomainShape:
    """Return the shape of a platform domain, with its current offers in the order of the modes."""
    current = sorted(
        (offer for offer in offers if offer.withdrawn_at is None), key=lambda each: MODES.index(each.mode)
    )
    names = (name for name in PlatformDomainShape.__struct_fields__ if name != "modes")
    return PlatformDomainShape(
        modes=[ModeShape.of(offer) for offer in current],
        **{name: getattr(platform_domain, name) for name in names}
        | {
            "registration_open": platform_domain.accepts_registrations,
            "record_types": list(platform_domain.record_types) if platform_domain.accepts_records else [],
        },
    )


@api.get(
    "/platform-domains",
    "account:read",
    example={
        "platform_domains": [
            {
                "id": 1,
                "domain": "example.net",
                "public_name": "Example Net",
                "description": "Names for everyone.",
                "registration_open": True,
                "idn": True,
                "dnssec_signed": True,
                "nameservers_min": 1,
                "nameservers_max": 13,
                "label_length_min": 1,
                "record_types": ["A", "AAAA", "CNAME", "TXT"],
                "modes": [
                    {"mode": "free", "price_credits": 0, "renewal_price_credits": 0, "period_days": 365},
                    {"mode": "plus", "price_credits": 10, "renewal_price_credits": 10, "period_days": 365},
                ],
                "renewal_window_days": 60,
                "grace_days": 30,
                "trash_days": 30,
            }
        ],
        "page": PAGE,
    },
)
def platform_domains(tx: Tx, call: Call[None, PageQuery]) -> Answer[PlatformDomainsAnswer]:
    """List the platform domains.

    Returns the domains under which this account may register names, with their modes and prices.
    """
    paging = Paging[PlatformDomainShape](call, "platform_domains")
    organization_id = call.registrant.organization.id
    visible = store.list_visible(tx, call.actor(), organization_id, paging.limit, paging.after)
    offers = store.list_offers_of(tx, [each.id for each in visible])
    items, page, headers = paging.take(
        (Position(each.created_at, each.id), platform_domain_shape(each, offers.get(each.id, [])))
        for each in visible
    )
    return Answer(PlatformDomainsAnswer(platform_domains=items, page=page), headers)
