"""Refusals of the API as diagnostics of Terraform, at the attribute that they are about."""

import re
from collections.abc import Set as AbstractSet
from types import TracebackType

from tf.utils import Diagnostics

from sublet_client import ApiError, SubletError

ATTRIBUTES = {
    "delegation_exists": "fqdn",
    "free_quota_exceeded": "registration_mode",
    "insufficient_credits": "max_credits",
    "payment_confirmation_required": "max_credits",
    "price_changed": "max_credits",
    "records_exist": "nameservers",
    "records_not_allowed": "fqdn",
    "registration_mode_not_allowed": "registration_mode",
    "subdomain_not_found": "fqdn",
    "subdomain_unavailable": "fqdn",
    "token_expired": "token",
    "token_invalid": "token",
    "token_revoked": "token",
    "transfer_pending": "fqdn",
}
"""The attribute that a code is about, beside those of wrong fields."""
SENTENCES = {
    "delegation_exists": "The name has nameservers, which answer for it. Remove "
    "them from its sublet_subdomain first, or "
    "add the records at their provider.",
    "records_exist": "The name has records, so it can't have nameservers. Remove its sublet_records first.",
}
"""What is wrong in the words of this provider, by the code; otherwise the message of the API is shown."""


class Reporting:
    """A block whose errors of the API become diagnostics; what follows the block is done then.

    `attributes` are those of the resource.
    """

    def __init__(self, diagnostics: Diagnostics, attributes: AbstractSet[str]) -> None:
        self._diagnostics, self._attributes = diagnostics, attributes

    def __enter__(self) -> None:
        return

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> bool:
        if not isinstance(error, (SubletError, ValueError)):
            return False
        if not isinstance(error, ApiError):
            self._diagnostics.add_error(str(error))
            return True
        trailer = f"({error.code}, request {error.request_id})"
        for fault in error.errors:
            self._add(fault.message, trailer, _attribute_of(fault.field))
        if not error.errors:
            self._add(SENTENCES.get(error.code, error.message), trailer, ATTRIBUTES.get(error.code, ""))
        return True

    def _add(self, sentence: str, trailer: str, attribute: str) -> None:
        path = [attribute] if attribute in self._attributes else None
        self._diagnostics.add_error(sentence, trailer, path=path)


def _attribute_of(field: str) -> str:
    """Return the attribute of a field of a request, such as `nameservers` of `nameservers[0]`, and `values`
    of `records[0].values[1]`.
    """
    name = re.split(r"[.\[]", re.sub(r"^records\[\d+\]\.", "", field), maxsplit=1)[0]
    return {"label": "fqdn", "domain": "fqdn"}.get(name, name)
