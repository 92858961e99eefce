"""The data sources: a name, platform domains with their prices, whether a name can be had, the account,
organizations.
"""

from collections.abc import Iterable
from typing import Any, ClassVar

from tf.iface import DataSource, ReadDataContext
from tf.schema import Attribute, Schema
from tf.types import Bool, Map, Number, Set, String
from tf.utils import Diagnostics

from sublet_client import Client
from sublet_client.models import Mode
from sublet_client.spelling import parse_name
from sublet_terraform.organizations import organization_state
from sublet_terraform.reporting import Reporting
from sublet_terraform.resource import HasClient, State
from sublet_terraform.subdomain import glue_of
from sublet_terraform.values import Text, instant_text, parse_id, report_faults, without_refinements

FQDN = Attribute("fqdn", String(), "The name.", required=True)
PRICES = (
    Attribute("prices", Map(Number()), "The price of a registration in credits, by mode.", computed=True),
    Attribute("renewal_prices", Map(Number()), "The price of a renewal in credits, by mode.", computed=True),
)


class SubletDataSource(DataSource):
    """A data source whose method may raise errors of the API: they become diagnostics."""

    name: ClassVar[str]
    attributes: ClassVar[tuple[Attribute, ...]]

    def __init__(self, provider: HasClient) -> None:
        self._provider = provider

    @classmethod
    def get_name(cls) -> str:
        """Return the name without the provider's prefix."""
        return cls.name

    @classmethod
    def get_schema(cls) -> Schema:
        """Return the attributes."""
        return Schema(attributes=list(cls.attributes), description=cls.__doc__)

    def validate(self, diags: Diagnostics, type_name: str, config: State) -> None:
        """Refuse values that the API can't parse, also without the service."""
        super().validate(diags, type_name, config)
        report_faults(diags, self.attributes, without_refinements(config))

    def read(self, ctx: ReadDataContext, config: State) -> State | None:
        """Return the values; None if that failed."""
        assert self._provider.client is not None  # noqa: S101 - Terraform configures first
        with Reporting(ctx.diagnostics, {each.name for each in self.attributes}):
            return config | self.ask(self._provider.client, config)
        return None

    def ask(self, client: Client, config: State) -> dict[str, Any]:
        """Return the computed values."""
        raise NotImplementedError


class SubdomainData(SubletDataSource):
    """A name that you hold."""

    name = "subdomain"
    attributes = (
        FQDN,
        Attribute("id", String(), "The id.", computed=True),
        Attribute("domain", String(), "The platform domain.", computed=True),
        Attribute("status", String(), "`active`: the DNS has the delegation.", computed=True),
        Attribute("registration_mode", String(), "The mode.", computed=True),
        Attribute("nameservers", Set(String()), "The nameservers.", computed=True),
        Attribute("glue", Map(Set(String())), "Addresses by host.", computed=True),
        Attribute("ds_records", Set(String()), "The DS records.", computed=True),
        Attribute("expires_at", String(), "When the term ends.", computed=True),
        Attribute("renewal_available", Bool(), "Whether it can be renewed now.", computed=True),
    )

    def ask(self, client: Client, config: State) -> dict[str, Any]:
        """Return the name as it is."""
        found = client.subdomains.get(config["fqdn"])
        return {
            "id": str(found.id),
            "domain": found.domain,
            "status": found.status,
            "registration_mode": found.registration_type,
            "nameservers": list(found.nameservers),
            "glue": glue_of(found),
            "ds_records": list(map(str, found.ds_records)),
            "expires_at": instant_text(found.expires_at),
            "renewal_available": found.renewal_available,
        }


class PlatformDomainData(SubletDataSource):
    """A platform domain with its prices."""

    name = "platform_domain"
    attributes = (
        Attribute("domain", Text(parse_name), "The domain.", required=True),
        Attribute("id", String(), "The id.", computed=True),
        Attribute("public_name", String(), "What people call it.", computed=True),
        Attribute("registration_open", Bool(), "Whether names can be registered.", computed=True),
        Attribute("nameservers_min", Number(), "The fewest nameservers.", computed=True),
        Attribute("nameservers_max", Number(), "The most nameservers.", computed=True),
        *PRICES,
        Attribute("period_days", Map(Number()), "The length of a term in days, by mode.", computed=True),
    )

    def read(self, ctx: ReadDataContext, config: State) -> State | None:
        """Return the platform domain, or an error if there is none with this name."""
        state = super().read(ctx, config)
        if state is not None and state["id"] is None:
            ctx.diagnostics.add_error(
                f"There is no platform domain {config['domain']}. Use one of data.sublet_platform_domains.",
                path=["domain"],
            )
            return None
        return state

    def ask(self, client: Client, config: State) -> dict[str, Any]:
        """Return the platform domain; nothing if there is none with this name."""
        wanted = parse_name(config["domain"])
        found = next((each for each in client.platform_domains.list() if each.domain == wanted), None)
        if found is None:
            return {}
        return {
            "id": str(found.id),
            "public_name": found.public_name,
            "registration_open": found.registration_open,
            "nameservers_min": found.nameservers_min,
            "nameservers_max": found.nameservers_max,
            **_prices(found.modes),
            "period_days": {each.mode: each.period_days for each in found.modes},
        }


class PlatformDomainsData(SubletDataSource):
    """The platform domains that you can use."""

    name = "platform_domains"
    attributes = (Attribute("domains", Set(String()), "Their names.", computed=True),)

    def ask(self, client: Client, config: State) -> dict[str, Any]:  # noqa: ARG002 - the interface's
        """Return the names."""
        return {"domains": [each.domain for each in client.platform_domains.list()]}


class AvailabilityData(SubletDataSource):
    """Whether you can register a name now, and for how much."""

    name = "availability"
    attributes = (
        FQDN,
        Attribute("available", Bool(), "Whether a registration would succeed.", computed=True),
        Attribute("reason", String(), "The code of the refusal otherwise.", computed=True),
        *PRICES,
    )

    def ask(self, client: Client, config: State) -> dict[str, Any]:
        """Return the answer."""
        found = client.subdomains.availability(config["fqdn"])
        return {"available": found.available, "reason": found.reason, **_prices(found.modes)}


class AccountData(SubletDataSource):
    """The account of the token."""

    name = "account"
    attributes = (
        Attribute("id", String(), "The user's id.", computed=True),
        Attribute("email", String(), "The user's mail address.", computed=True),
        Attribute("organization", String(), "The organization that the token is for.", computed=True),
        Attribute("credit_balance", Number(), "The balance in credits.", computed=True),
        Attribute("free_names_left", Number(), "How many more free names it may hold.", computed=True),
        Attribute("token_id", String(), "The id of the token in use.", computed=True),
    )

    def ask(self, client: Client, config: State) -> dict[str, Any]:  # noqa: ARG002 - the interface's
        """Return the account."""
        me = client.account.me()
        return {
            "id": str(me.user.id),
            "email": me.user.email,
            "organization": me.organization.name,
            "credit_balance": client.credits.get().credit_balance,
            "free_names_left": client.account.free_subdomains().remaining,
            "token_id": None if me.token is None else str(me.token.id),
        }


class OrganizationData(SubletDataSource):
    """An organization of which you are a member."""

    name = "organization"
    attributes = (
        Attribute("id", Text(parse_id), "The id.", required=True),
        Attribute("name", String(), "What people call it.", computed=True),
        Attribute("slug", String(), "Its short name.", computed=True),
        Attribute("role", String(), "Your role.", computed=True),
        Attribute("members", Map(String()), "The roles of its members, by mail address.", computed=True),
    )

    def ask(self, client: Client, config: State) -> dict[str, Any]:
        """Return the organization with its members."""
        found = organization_state(client.organizations.get(config["id"]))
        members = client.organizations.members(config["id"])
        return found | {"members": {each.email: each.role for each in members}}


class OrganizationsData(SubletDataSource):
    """The organizations of which you are a member."""

    name = "organizations"
    attributes = (Attribute("ids", Map(String()), "Their ids by slug.", computed=True),)

    def ask(self, client: Client, config: State) -> dict[str, Any]:  # noqa: ARG002 - the interface's
        """Return the ids."""
        return {"ids": {each.slug: str(each.id) for each in client.organizations.list()}}


def _prices(modes: Iterable[Mode]) -> dict[str, dict[str, int]]:
    offers = tuple(modes)
    return {
        "prices": {each.mode: each.price_credits for each in offers},
        "renewal_prices": {each.mode: each.renewal_price_credits for each in offers},
    }
