"""`sublet_automatic_ds`: DS records that follow the zone of a name."""

from typing import Any

from tf.iface import CreateContext, UpdateContext
from tf.schema import Attribute
from tf.types import Bool, String

from sublet_client import AutomaticDs, SubdomainNotFound
from sublet_client.spelling import parse_name
from sublet_terraform.resource import State, SubletResource, known
from sublet_terraform.values import Text

DEFAULT: dict[str, Any] = {"enabled": True, "bootstrap": True}
"""What a name has without this resource."""


class AutomaticDsResource(SubletResource):
    """The setting of a name. Destroying it sets what a new name has: both are on."""

    name = "automatic_ds"
    description = (
        "Whether the DS records of a name follow the CDS and CDNSKEY records of its zone. Leave "
        "`ds_records` of the name out then."
    )
    attributes = (
        Attribute("fqdn", Text(parse_name), "The name.", required=True, requires_replace=True),
        Attribute("enabled", Bool(), "Whether the DS records follow the zone.", optional=True, computed=True),
        Attribute(
            "bootstrap",
            Bool(),
            "Whether the first DS records come from the zone too.",
            optional=True,
            computed=True,
        ),
        Attribute("policy", String(), "What the platform domain allows, such as `off`.", computed=True),
    )

    def create_new(self, ctx: CreateContext, planned: State) -> State:  # noqa: ARG002 - the interface's
        """Set it."""
        return self._set(planned)

    def find(self, current: State) -> State | None:
        """Return it; None if the name is gone."""
        try:
            return current | _state(self.client.subdomains.get_automatic_ds(current["fqdn"]))
        except SubdomainNotFound:
            self.refuse_hidden(current["fqdn"])
            return None

    def change(self, ctx: UpdateContext, current: State, planned: State) -> State:  # noqa: ARG002 - the interface's
        """Change it."""
        return self._set(planned)

    def remove(self, current: State) -> None:
        """Set what a new name has."""
        try:
            self.client.subdomains.set_automatic_ds(current["fqdn"], **DEFAULT)
        except SubdomainNotFound:
            self.refuse_hidden(current["fqdn"])

    def identify(self, text: str) -> State:
        """Return the name."""
        return {"fqdn": parse_name(text)}

    def _set(self, planned: State) -> State:
        given: dict[str, Any] = {each: known(planned, each) for each in DEFAULT}
        return planned | _state(self.client.subdomains.set_automatic_ds(planned["fqdn"], **given))


def _state(found: AutomaticDs) -> State:
    return {"enabled": found.enabled, "bootstrap": found.bootstrap, "policy": found.policy}
