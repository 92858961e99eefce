"""`sublet_transfer`: a name offered to another person."""

from tf.iface import CreateContext, UpdateContext
from tf.schema import Attribute
from tf.types import String

from sublet_client import Transfer, TransferNotFound
from sublet_client.spelling import parse_mail_address, parse_name
from sublet_terraform.resource import State, SubletResource
from sublet_terraform.values import Text, instant_text


class TransferResource(SubletResource):
    """An offer. Destroying it withdraws it; one that has ended stays as it ended."""

    name = "transfer"
    description = (
        "A name offered to another person, who has seven days to accept. Destroying the offer withdraws it."
    )
    attributes = (
        Attribute("fqdn", Text(parse_name), "The name.", required=True, requires_replace=True),
        Attribute(
            "to",
            Text(parse_mail_address),
            "The mail address of the new holder.",
            required=True,
            requires_replace=True,
        ),
        Attribute("id", String(), "The id.", computed=True),
        Attribute("state", String(), "`pending`, or how it ended.", computed=True),
        Attribute("expires_at", String(), "Until when it can be accepted.", computed=True),
    )

    def create_new(self, ctx: CreateContext, planned: State) -> State:  # noqa: ARG002 - the interface's
        """Offer the name."""
        return _state(self.client.transfers.push(planned["fqdn"], planned["to"]))

    def find(self, current: State) -> State | None:
        """Return the offer."""
        try:
            return current | _state(self.client.transfers.get(current["id"]))
        except TransferNotFound:
            return None

    def change(self, ctx: UpdateContext, current: State, planned: State) -> State:  # noqa: ARG002 - the interface's
        """Nothing of an offer can be changed."""
        return planned

    def remove(self, current: State) -> None:
        """Withdraw the offer if it is still open."""
        found = self.find(current)
        if found is not None and found["state"] == "pending":
            self.client.transfers.withdraw(current["id"])

    def identify(self, text: str) -> State:
        """Return the id."""
        return {"id": text}


def _state(found: Transfer) -> State:
    return {
        "id": str(found.id),
        "fqdn": found.subdomain,
        "to": found.to,
        "state": found.state,
        "expires_at": instant_text(found.expires_at),
    }
