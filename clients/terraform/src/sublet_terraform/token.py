"""`sublet_token`: a token of the API with its restrictions."""

from datetime import UTC, datetime
from typing import Any

from tf.iface import CreateContext, PlanContext, UpdateContext
from tf.schema import Attribute
from tf.types import String, Unknown
from tf.utils import Diagnostics

from sublet_client import TokenDetail, TokenNotFound
from sublet_client.models import SecretAnswer
from sublet_client.spelling import (
    parse_instant,
    parse_name,
    parse_network,
    parse_pattern,
    parse_record_pattern,
    parse_scope,
)
from sublet_terraform.resource import State, SubletResource, known
from sublet_terraform.values import Credits, Text, Texts, instant_text, parse_id

RESTRICTIONS = ("names", "domains", "networks", "record_names", "daily_credits", "expires_at")
INHERITED = "Left out: that of the provider's own token."


class TokenResource(SubletResource):
    """A token; its secret is in the state.

    Destroying it revokes it; one that was revoked or has expired is created again.
    """

    name = "token"
    description = "A token with its restrictions. Its secret is stored in the state, so protect that."
    attributes = (
        Attribute("name", Text(str.strip), "What it is for.", required=True),
        Attribute("scopes", Texts(parse_scope), "What it may do.", required=True),
        Attribute(
            "names",
            Texts(parse_pattern),
            f"The names it is for, also `*.example.net`. {INHERITED}",
            optional=True,
            computed=True,
        ),
        Attribute(
            "domains",
            Texts(parse_name),
            f"The platform domains it is for. {INHERITED}",
            optional=True,
            computed=True,
        ),
        Attribute(
            "networks",
            Texts(parse_network),
            f"The networks it may be used from. {INHERITED}",
            optional=True,
            computed=True,
        ),
        Attribute(
            "record_names",
            Texts(parse_record_pattern),
            "The owners whose records it may change, such as `_acme-challenge`, also `_acme-challenge.*`. "
            f"{INHERITED}",
            optional=True,
            computed=True,
        ),
        Attribute(
            "daily_credits",
            Credits(),
            f"The most it may spend in 24 hours. {INHERITED}",
            optional=True,
            computed=True,
        ),
        Attribute(
            "expires_at",
            Text(parse_instant),
            "When it expires (RFC 3339); by default in 30 days, at most in 365.",
            optional=True,
            computed=True,
        ),
        Attribute(
            "organization_id",
            Text(parse_id),
            f"The organization whose names and credits it is for. {INHERITED}",
            optional=True,
            computed=True,
            requires_replace=True,
        ),
        Attribute(
            "rotation", String(), "A text of yours. When it changes, the secret is replaced.", optional=True
        ),
        Attribute("id", String(), "The id.", computed=True),
        Attribute("secret", String(), "The secret; null after an import.", computed=True, sensitive=True),
    )

    def check(self, diags: Diagnostics, config: State) -> None:
        """Refuse empty sets: a token has scopes, and a restriction to nothing is none."""
        for each in ("scopes", "names", "domains", "networks", "record_names"):
            if config[each] == []:
                diags.add_error(f"{each} is empty. Give an item, or leave it out.", path=[each])

    def plan_change(self, ctx: PlanContext, current: State, planned: State, config: State) -> State:  # noqa: ARG002
        """Return the plan; a rotation gives a new secret."""
        if planned["rotation"] != current["rotation"]:
            planned["secret"] = Unknown
        return planned

    def create_new(self, ctx: CreateContext, planned: State) -> State:  # noqa: ARG002 - the interface's
        """Create the token."""
        organization = known(planned, "organization_id")
        made = self.client.tokens.create(
            planned["name"],
            planned["scopes"],
            organization_id=None if organization is None else int(organization),
            **_restrictions(planned),
        )
        return self._issued(made)

    def find(self, current: State) -> State | None:
        """Return the token; None if it is revoked or has expired."""
        try:
            found = self.client.tokens.get(current["id"])
        except TokenNotFound:
            return None
        if found.revoked_at is not None or (
            found.expires_at is not None and found.expires_at <= datetime.now(UTC)
        ):
            return None
        return current | _state(found)

    def change(self, ctx: UpdateContext, current: State, planned: State) -> State:  # noqa: ARG002 - the interface's
        """Change the token, and rotate it if asked to. The former secret stays valid for an hour."""
        found = self.client.tokens.change(
            current["id"], name=planned["name"], scopes=planned["scopes"], **_restrictions(planned)
        )
        if planned["rotation"] != current["rotation"]:
            return self._issued(self.client.tokens.rotate(current["id"]))
        return _state(found)

    def remove(self, current: State) -> None:
        """Revoke the token."""
        try:
            self.client.tokens.revoke(current["id"])
        except TokenNotFound:
            return

    def _issued(self, made: SecretAnswer) -> State:
        """Return the state of a token with its new secret."""
        if made.secret is None:  # the answer with the secret was lost
            made = self.client.tokens.rotate(made.token.id, overlap_seconds=0)
        return _state(made.token) | {"secret": made.secret.reveal() if made.secret is not None else None}

    def identify(self, text: str) -> State:
        """Return the id."""
        return {"id": text}


def _restrictions(planned: State) -> dict[str, Any]:
    """Return the restrictions that are given; the others are left to the service."""
    given = {each: planned[each] for each in RESTRICTIONS if known(planned, each) is not None}
    if "expires_at" in given:
        given["expires_at"] = parse_instant(given["expires_at"])
    return given


def _state(found: TokenDetail) -> State:
    return {
        "id": str(found.id),
        "name": found.name,
        "scopes": list(found.scopes),
        "names": _list(found.names),
        "domains": _list(found.domains),
        "networks": _list(found.networks),
        "record_names": _list(found.record_names),
        "daily_credits": found.daily_credits,
        "organization_id": str(found.organization_id),
        "expires_at": instant_text(found.expires_at) if found.expires_at else None,
    }


def _list(members: tuple[str, ...] | None) -> list[str] | None:
    return None if members is None else list(members)
