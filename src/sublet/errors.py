"""Refusals: one class a wire code, in few categories.

A refusal is a correct answer: it says what is wrong and what to do. Raising one inside a verb rolls the
transaction back, so a refusal leaves no trace. Everything else that is raised is a fault: logged whole,
shown blank. This module knows no HTTP; `http/errors.py` turns a category into a status, and adds the few codes
that only HTTP has. docs/errors.md lists every code; a test holds that page and these classes together.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from enum import Enum
from typing import Any, ClassVar


class Category(Enum):
    """What kind of refusal it is; an edge turns it into its own terms (an HTTP status, an exit code)."""

    MALFORMED = "malformed"
    UNAUTHENTICATED = "unauthenticated"
    PAYMENT = "payment"
    FORBIDDEN = "forbidden"
    MISSING = "missing"
    CONFLICT = "conflict"
    INVALID = "invalid"
    LIMITED = "limited"
    UNAVAILABLE = "unavailable"
    FAULT = "fault"


FIELD_CODES: dict[str, str] = {
    "required": "the field is missing",
    "too_long": "the text or the list is longer than allowed",
    "value_invalid": "the value is of the right type, but not one of those allowed",
    "label_required": "no label was given, neither as `label` nor inside `fqdn`",
    "label_invalid": "not a label by the rules of host names and IDNA",
    "label_too_short": "shorter than the platform domain's `label_length_min`",
    "fqdn_mismatch": "`fqdn`, `label`, `domain` and `platform_domain_id` do not name the same name",
    "platform_domain_required": "nothing selects a platform domain",
    "registration_mode_invalid": "not one of free, plus, premium, special",
    "nameserver_invalid": "not a host name",
    "nameserver_duplicate": "the same nameserver twice",
    "nameserver_cycle": "the nameservers can only be found through this very name",
    "nameserver_unregistered": "the nameserver lies below a name of a platform domain that no user has registered",
    "too_many_nameservers": "more than the platform domain's `nameservers_max`",
    "too_few_nameservers": "fewer than the platform domain's `nameservers_min`",
    "glue_required": "a nameserver at or below the own name has no glue address",
    "glue_not_allowed": "glue for a host that is not a nameserver at or below the own name",
    "glue_not_public": "the address is not globally reachable",
    "glue_invalid": "not an address, or an entry without one",
    "ds_invalid": "not a DS record or DNSKEY that can be used",
    "ds_without_nameservers": "DS records without nameservers",
    "too_many_ds_records": "more than eight DS records",
    "coupon_invalid": "no such coupon, or it is over, used up or not yet valid",
    "coupon_not_applicable": "the coupon is good, but not for this",
    "ticket_subdomain_invalid": "the ticket's subdomain is not one of the user's own",
}
"""The codes of single fields inside `validation_failed` and `invalid_request`, with their meaning."""

MALFORMED_FIELD_CODES: dict[str, str] = {
    "unknown_field": "the service knows no such member or query parameter",
    "duplicate_field": "the member or query parameter is given more than once",
    "wrong_type": "the value is of another JSON type than the field takes",
    "unknown_value": "the query parameter takes other values",
}
"""The codes of single fields inside `invalid_request` (400), with their meaning."""


FIELD_ERRORS_MAX = 50
"""Most wrong fields that a refusal lists: a body of 64 KiB has room for some ten thousand."""


@dataclass(frozen=True, slots=True)
class FieldError:
    """One wrong field: its name (`nameservers[1]`, `glue[0].ipv4`), a code of `FIELD_CODES`, a sentence."""

    field: str
    code: str
    message: str

    def __post_init__(self) -> None:
        if self.code not in FIELD_CODES and self.code not in MALFORMED_FIELD_CODES:
            raise ValueError(f"unknown field code {self.code}")


class FieldErrors(list[FieldError]):
    """Wrong fields in their order: at most `FIELD_ERRORS_MAX` of them. `omitted` counts the others."""

    omitted = 0

    def is_full(self) -> bool:
        """Return whether one more would only be counted."""
        return len(self) >= FIELD_ERRORS_MAX

    def add(self, field: str, code: str, message: str) -> None:
        """Append a wrong field, or count it."""
        if self.is_full():
            self.omitted += 1
        else:
            self.append(FieldError(field, code, message))


class Refusal(Exception):  # noqa: N818 - a refusal is a correct answer, not an error
    """The base of all refusals.

    `message` is one sentence that a person can act on. `details` has members only where the code defines
    them. `errors` lists malformed fields, or invalid ones, at most `FIELD_ERRORS_MAX`; `details.errors_omitted` counts the others. `quote` is what a paid operation would cost (a struct that the
    edge renders). `retry_after_seconds` is for LIMITED and UNAVAILABLE.
    """

    code: ClassVar[str]
    category: ClassVar[Category]

    def __init__(
        self,
        message: str,
        *,
        details: Mapping[str, Any] | None = None,
        errors: Sequence[FieldError] = (),
        errors_omitted: int = 0,
        quote: Any = None,
        retry_after_seconds: int | None = None,
    ) -> None:
        super().__init__(message)
        self.message = message
        self.details: dict[str, Any] = dict(details or {})
        self.errors = tuple(errors[:FIELD_ERRORS_MAX])
        omitted = errors_omitted + len(errors) - len(self.errors)
        if omitted:
            self.details["errors_omitted"] = omitted
        self.quote = quote
        self.retry_after_seconds = retry_after_seconds


# Malformed


class InvalidJson(Refusal):
    """The body is not one JSON object in UTF-8 within the limits of depth and numbers."""

    code = "invalid_json"
    category = Category.MALFORMED


class InvalidRequest(Refusal):
    """A member or query parameter is unknown, duplicate or of the wrong type; or a header is of no good form."""

    code = "invalid_request"
    category = Category.MALFORMED


class InvalidCursor(Refusal):
    """The cursor is not one that this list handed out."""

    code = "invalid_cursor"
    category = Category.MALFORMED


# Who is asking


class TokenMissing(Refusal):
    """No `Authorization: Bearer …` header."""

    code = "token_missing"
    category = Category.UNAUTHENTICATED


class TokenInvalid(Refusal):
    """The token has a typing error or was never issued."""

    code = "token_invalid"
    category = Category.UNAUTHENTICATED


class TokenExpired(Refusal):
    """The token's `expires_at` has passed."""

    code = "token_expired"
    category = Category.UNAUTHENTICATED


class TokenRevoked(Refusal):
    """The operator revoked the token."""

    code = "token_revoked"
    category = Category.UNAUTHENTICATED


class InsufficientScope(Refusal):
    """The token lacks a scope; `details.required_scope` names it."""

    code = "insufficient_scope"
    category = Category.FORBIDDEN


class AccountSuspended(Refusal):
    """A suspended user may read and open tickets, nothing else."""

    code = "account_suspended"
    category = Category.FORBIDDEN


# Money


class PaymentConfirmationRequired(Refusal):
    """Credits are needed and `confirm` is not true; `quote` says what it costs (spec, part 3, rule 4)."""

    code = "payment_confirmation_required"
    category = Category.PAYMENT


class InsufficientCredits(Refusal):
    """Confirmed, but the balance is short; `quote` says by how much."""

    code = "insufficient_credits"
    category = Category.PAYMENT


class PriceChanged(Refusal):
    """The price is above `max_credits`; `quote` is a fresh one. Nothing was charged."""

    code = "price_changed"
    category = Category.CONFLICT


# Not allowed


class RegistrationModeNotAllowed(Refusal):
    """The mode is `admin`, is not offered here, or does not fit the label's class."""

    code = "registration_mode_not_allowed"
    category = Category.FORBIDDEN


class FreeQuotaExceeded(Refusal):
    """All free names of the user's quota are in use; `details` has `limit` and `used`."""

    code = "free_quota_exceeded"
    category = Category.FORBIDDEN


class RegistrationClosed(Refusal):
    """The platform domain takes no new registrations."""

    code = "registration_closed"
    category = Category.FORBIDDEN


# Not there


class SubdomainNotFound(Refusal):
    """No such subdomain among the user's own; for the former owner `details` says what is in the trash."""

    code = "subdomain_not_found"
    category = Category.MISSING


class PlatformDomainNotFound(Refusal):
    """No such platform domain that this user can see."""

    code = "platform_domain_not_found"
    category = Category.MISSING


class TicketNotFound(Refusal):
    """No such ticket among the user's own."""

    code = "ticket_not_found"
    category = Category.MISSING


class NotFound(Refusal):
    """Nothing has this name (an object of the operator's command line, or a path of the API)."""

    code = "not_found"
    category = Category.MISSING


# In the way of the state things are in


class SubdomainUnavailable(Refusal):
    """The name can't be registered now.

    `details.reason` is taken, reserved, in_trash or cooling_off; `details.owned` tells whether the asking user holds it.
    """

    code = "subdomain_unavailable"
    category = Category.CONFLICT


class TicketClosed(Refusal):
    """A closed ticket cannot be replied to (spec, part 3, rule 3)."""

    code = "ticket_closed"
    category = Category.CONFLICT


class NameserverRequired(Refusal):
    """A retry needs nameserver 1 (spec, part 3, rule 2)."""

    code = "nameserver_required"
    category = Category.CONFLICT


class RetryNotAvailable(Refusal):
    """A retry is only possible after a provisioning failure (spec, part 3, rule 2)."""

    code = "retry_not_available"
    category = Category.CONFLICT


class RenewalNotAvailable(Refusal):
    """The renewal window is not open; `details` has `opens_at`, and `expires_at` and `last_renewed_at` as they are."""

    code = "renewal_not_available"
    category = Category.CONFLICT


class SubdomainSuspended(Refusal):
    """The operator holds the name, for the reason in the message."""

    code = "subdomain_suspended"
    category = Category.CONFLICT


class Conflict(Refusal):
    """The object is not in a state in which this can be done; the message says which state that is."""

    code = "conflict"
    category = Category.CONFLICT


class ValidationFailed(Refusal):
    """Fields of the right type, but missing or of no good value; `errors` lists them all."""

    code = "validation_failed"
    category = Category.INVALID


# The service's own


class RateLimited(Refusal):
    """Too many requests of this class, changes of this name, or requests of this kind at once; `Retry-After` says when to ask again."""

    code = "rate_limited"
    category = Category.LIMITED


class Unavailable(Refusal):
    """The database can't be written (or reached), or too many ask the name servers, right now; nothing was changed."""

    code = "unavailable"
    category = Category.UNAVAILABLE


class ClockImplausible(Refusal):
    """The clock is more than 400 days ahead of the newest stored instant, or a day behind it: no dates are taken from it."""

    code = "clock_implausible"
    category = Category.UNAVAILABLE


def validation_failed(errors: Sequence[FieldError], omitted: int = 0) -> ValidationFailed:
    """Return the refusal that carries these wrong fields; its message is the first one's, or counts them and the omitted ones."""
    first = errors[0]
    sentence = f"{first.field}: {first.message}"
    count = len(errors) + omitted
    if count > 1:
        sentence = f"{count} fields need a change; the first: {sentence}"
    return ValidationFailed(sentence, errors=errors, errors_omitted=omitted)
