"""The provider: its configuration, resources and data sources, and its process that Terraform starts."""

import os
import sys
from pathlib import Path
from typing import Any

import tf.provider
from tf.gen import tfplugin_pb2 as messages
from tf.iface import DataSource, PlanContext, Provider, Resource
from tf.runner import run_provider
from tf.schema import Attribute, Schema
from tf.types import String, Unknown
from tf.utils import Diagnostics, read_dynamic_value, to_dynamic_value

from sublet_client import ApiError, Client, NotFound, NotReached, RateLimited, UnexpectedAnswer
from sublet_terraform import data_sources
from sublet_terraform.automatic_ds import AutomaticDsResource
from sublet_terraform.mirror import SOURCE, write_mirror
from sublet_terraform.organizations import OrganizationMemberResource, OrganizationResource
from sublet_terraform.records import RecordsResource
from sublet_terraform.registrations import Registrations
from sublet_terraform.reporting import Reporting
from sublet_terraform.resource import State
from sublet_terraform.subdomain import SubdomainResource
from sublet_terraform.token import TokenResource
from sublet_terraform.transfer import TransferResource
from sublet_terraform.values import without_refinements

ENVIRONMENT = {"url": "SUBLET_URL", "token": "SUBLET_TOKEN"}
CHECK_URL = "Check SUBLET_URL, such as https://names.example.net/api/v1."
GREETING_SECONDS = 10.0
STARTED_BY = "TF_PLUGIN_MAGIC_COOKIE"
"""The variable that Terraform and OpenTofu set for their plugins."""


class SubletProvider(Provider):
    """The provider `sublet`."""

    client: Client | None = None

    def __init__(self) -> None:
        self.registrations = Registrations()

    def full_name(self) -> str:
        """Return the address of the provider."""
        return SOURCE

    def get_model_prefix(self) -> str:
        """Return what the names of resources begin with."""
        return "sublet_"

    def get_provider_schema(self, diags: Diagnostics) -> Schema:  # noqa: ARG002 - the interface's
        """Return the attributes of a `provider` block."""
        return Schema(
            attributes=[
                Attribute(
                    "url",
                    String(),
                    "The address of the API, such as `https://names.example.net/api/v1`; by default "
                    "`SUBLET_URL`.",
                    optional=True,
                ),
                Attribute(
                    "token", String(), "The token; by default `SUBLET_TOKEN`.", optional=True, sensitive=True
                ),
            ]
        )

    def validate_config(self, diags: Diagnostics, config: State) -> None:
        """Accept every configuration: what is missing may be in the environment of a later command."""

    def configure_provider(self, diags: Diagnostics, config: State) -> None:
        """Make the client, and use it once: a wrong address or token is one error here, instead of one at
        each object.
        """
        given = {each: config[each] or os.environ.get(name) for each, name in ENVIRONMENT.items()}
        for each, name in ENVIRONMENT.items():
            if given[each] is Unknown:
                diags.add_error(
                    f"The provider's {each} is not known before the apply. Set {name}.", path=[each]
                )
            elif not given[each]:
                diags.add_error(f'Set {name}, or {each} in the block provider "sublet".', path=[each])
        if diags.has_errors():
            return
        url, token = str(given["url"]), str(given["token"])
        try:
            self.client = Client(url, token)
        except ValueError as error:
            diags.add_error(str(error))
            return
        _greet(diags, url, token)

    def get_resources(self) -> list[type[Resource]]:
        """Return the resources."""
        return [
            SubdomainResource,
            RecordsResource,
            TokenResource,
            AutomaticDsResource,
            TransferResource,
            OrganizationResource,
            OrganizationMemberResource,
        ]

    def get_data_sources(self) -> list[type[DataSource]]:
        """Return the data sources."""
        return [
            data_sources.SubdomainData,
            data_sources.PlatformDomainData,
            data_sources.PlatformDomainsData,
            data_sources.AvailabilityData,
            data_sources.AccountData,
            data_sources.OrganizationData,
            data_sources.OrganizationsData,
        ]


class PlanningServicer(tf.provider.ProviderServicer):
    """The services of the provider, with plans that `tf` doesn't make.

    A resource is asked for plans of new objects too, and a value that is only spelled differently is no
    change.
    """

    def PlanResourceChange(self, request: Any, context: Any) -> Any:  # noqa: ARG002, N802 - the protocol's name
        """Return the plan of a change, or of a new object."""
        values = (request.prior_state, request.proposed_new_state, request.config)
        prior, planned, config = (without_refinements(read_dynamic_value(each)) for each in values)
        kinds = {self.app.get_model_prefix() + each.get_name(): each for each in self.app.get_resources()}
        resource = self.app.new_resource(kinds[request.type_name])
        diagnostics = Diagnostics()
        planned = resource.plan(PlanContext(diagnostics, request.type_name, set()), prior, planned, config)
        replaced = [
            each.name
            for each in resource.attributes
            if each.requires_replace and prior is not None and resource.is_changed(prior, planned, each.name)
        ]
        return messages.PlanResourceChange.Response(
            planned_state=to_dynamic_value(planned),
            requires_replace=[
                messages.AttributePath(steps=[messages.AttributePath.Step(attribute_name=each)])
                for each in replaced
            ],
            diagnostics=diagnostics.to_pb(),
        )


def _greet(diagnostics: Diagnostics, url: str, token: str) -> None:
    """Report if the service doesn't answer in time, or refuses the token.

    For a limit, the calls that follow wait.
    """
    try:
        with Client(url, token, deadline_seconds=GREETING_SECONDS) as client:
            client.account.me()
    except RateLimited:
        return
    except (NotReached, UnexpectedAnswer) as error:
        diagnostics.add_error(str(error), path=["url"])
    except NotFound:
        diagnostics.add_error(f"{url} is not the address of Sublet's API. {CHECK_URL}", path=["url"])
    except ApiError as error:
        with Reporting(diagnostics, {*ENVIRONMENT}):
            raise error from None


def main() -> None:
    """Run the provider for the Terraform or OpenTofu that started this process; with --mirror FOLDER write a
    mirror that has it.
    """
    match sys.argv[1:]:
        case ["--mirror", folder]:
            print(write_mirror(Path(folder).absolute()))  # noqa: T201 - where it is
            return
    if STARTED_BY not in os.environ and "--dev" not in sys.argv:
        print("Terraform and OpenTofu start this program. Its README says where they find it.")  # noqa: T201 - its only output
        sys.exit(int("--help" not in sys.argv))
    tf.provider.ProviderServicer = PlanningServicer  # run_provider takes no other
    run_provider(SubletProvider())


if __name__ == "__main__":
    main()
