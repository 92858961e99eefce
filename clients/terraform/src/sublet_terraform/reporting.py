"""Refusals of the API as diagnostics of Terraform, at the attribute that they are about."""

import re
from collections.abc import Iterator
from contextlib import contextmanager

from sublet_client import ApiError, SubletError
from tf.utils import Diagnostics

ATTRIBUTES = {
    "free_quota_exceeded": "registration_mode",
    "insufficient_credits": "max_credits",
    "payment_confirmation_required": "max_credits",
    "price_changed": "max_credits",
    "registration_mode_not_allowed": "registration_mode",
    "subdomain_not_found": "fqdn",
    "subdomain_unavailable": "fqdn",
    "transfer_pending": "fqdn",
}
"""The attribute that a code is about, beside those of wrong fields."""


@contextmanager
def report(diagnostics: Diagnostics, attributes: set[str]) -> Iterator[None]:
    """Add an error of the API to the diagnostics, and go on after the block. `attributes` are those of the resource."""
    try:
        yield
    except ApiError as refusal:
        trailer = f"({refusal.code}, request {refusal.request_id})"
        for fault in refusal.errors:
            diagnostics.add_error(fault.message, trailer, path=_path(_attribute_of(fault.field), attributes))
        if not refusal.errors:
            named = ATTRIBUTES.get(refusal.code, "")
            diagnostics.add_error(refusal.message, trailer, path=_path(named, attributes))
    except SubletError as error:
        diagnostics.add_error(str(error))


def _attribute_of(field: str) -> str:
    """Return the attribute of a field of a request, such as `nameservers` of `nameservers[0]`."""
    name = re.split(r"[.\[]", field, maxsplit=1)[0]
    return {"label": "fqdn", "domain": "fqdn"}.get(name, name)


def _path(attribute: str, attributes: set[str]) -> list[str | tuple[str | int]] | None:
    return [attribute] if attribute in attributes else None
