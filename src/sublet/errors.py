"""Refusals: a class for each error code, in few categories.

A refusal is a correct answer that says what is wrong and what to do. A refusal inside a verb rolls back the
transaction, so the verb changes nothing. Every other exception is a fault: it is logged in full and answered
without details. `http/errors.py` maps categories to statuses. docs/errors.md lists every code, and a test
compares the list with the classes.
"""

from collections.abc import Mapping, Sequence
from enum import Enum
from typing import Any, ClassVar

from msgspec import Struct


class Category(Enum):
    """The kind of a refusal. HTTP maps it to a status."""

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


REFUSED, USAGE, UNAVAILABLE, FILES_CHANGED = 1, 2, 3, 4
"""The exit codes of commands and processes that fail (docs/cli.md)."""

FIELD_CODES: dict[str, str] = {
    "required": "the field is missing",
    "too_long": "the text or the list is longer than allowed",
    "value_invalid": "the value has the right type, but is not allowed",
    "label_required": "no label was given, neither as `label` nor inside `fqdn`",
    "label_invalid": "not a label by the rules of host names and IDNA",
    "label_too_short": "shorter than the platform domain's `label_length_min`",
    "fqdn_mismatch": "`fqdn`, `label`, `domain` and `platform_domain_id` contradict each other",
    "platform_domain_required": "no field selects a platform domain",
    "registration_mode_invalid": "not one of free, plus, premium, special",
    "nameserver_invalid": "not a host name",
    "nameserver_duplicate": "the same nameserver twice",
    "nameserver_cycle": "resolvers can find the nameservers only through the name itself",
    "nameserver_unregistered": "the nameserver is below an unregistered name of a platform domain",
    "too_many_nameservers": "more than the platform domain's `nameservers_max`",
    "too_few_nameservers": "fewer than the platform domain's `nameservers_min`",
    "glue_required": "a nameserver at or below the name itself has no glue address",
    "glue_not_allowed": "glue for a host that is not a nameserver at or below the name itself",
    "glue_not_public": "the address is not globally reachable",
    "glue_invalid": "not an address, or an entry without an address",
    "ds_invalid": "not a usable DS record or DNSKEY",
    "ds_without_nameservers": "DS records without nameservers",
    "too_many_ds_records": "more than eight DS records",
    "record_invalid": "not an owner or value that the record's type allows",
    "record_duplicate": "the same RRset or the same value twice",
    "cname_not_alone": "a CNAME at an owner that has other records",
    "too_many_records": "more records than allowed, or larger ones",
    "address_not_public": "the address in a record is not globally reachable",
    "coupon_invalid": "the coupon does not exist, has expired, is used up or not yet valid",
    "coupon_not_applicable": "the coupon is valid, but not for this operation",
    "exceeds_token": "the new token would have permissions that the token of the request lacks",
    "ticket_subdomain_invalid": "the user has no such subdomain",
}
"""The codes of single fields in `validation_failed` and `invalid_request`, with their meaning."""

MALFORMED_FIELD_CODES: dict[str, str] = {
    "unknown_field": "the member or query parameter is unknown",
    "duplicate_field": "the member or query parameter is given more than once",
    "wrong_type": "the value has the wrong JSON type",
    "unknown_value": "the query parameter doesn't take this value",
}
"""The codes of single fields in `invalid_request` (400), with their meaning."""


FIELD_ERRORS_MAX = 50
"""The maximum number of wrong fields in a refusal. A body of 64 KiB can have about ten thousand."""


class FieldError(Struct, frozen=True):
    """A wrong field: its name (`nameservers[1]`, `glue[0].ipv4`), a code of `FIELD_CODES`, and a sentence."""

    field: str
    code: str
    message: str

    def __post_init__(self) -> None:
        if self.code not in FIELD_CODES and self.code not in MALFORMED_FIELD_CODES:
            raise ValueError(f"unknown field code {self.code}")


class FieldErrors(list[FieldError]):
    """The first `FIELD_ERRORS_MAX` wrong fields in their order.

    `omitted` is the number of further wrong fields.
    """

    omitted = 0

    def is_full(self) -> bool:
        """True if the list is full, so that `add` only counts."""
        return len(self) >= FIELD_ERRORS_MAX

    def add(self, field: str, code: str, message: str) -> None:
        """Append a wrong field, or only count it if the list is full."""
        if self.is_full():
            self.omitted += 1
        else:
            self.append(FieldError(field, code, message))


class Refusal(Exception):  # noqa: N818 - a refusal is a correct answer, not an error
    """The base of all refusals.

    `message` says what is wrong and what to do. docs/errors.md lists the `details` of each code. `errors` has
    up to `FIELD_ERRORS_MAX` wrong fields, and `details.errors_omitted` is the number of further wrong fields.
    `quote` is the quote of a paid operation. `retry_after_seconds` is for LIMITED and UNAVAILABLE.
    """

    code: ClassVar[str]
    category: ClassVar[Category]

    def __init_subclass__(cls, code: str | None = None, category: Category | None = None) -> None:
        """Store the code and category of a class. Without them, a subclass inherits both."""
        if code is not None and category is not None:
            cls.code, cls.category = code, category

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


class InvalidJson(Refusal, code="invalid_json", category=Category.MALFORMED):
    """The body is not a JSON object in UTF-8 within the limits of depth and numbers."""


class InvalidRequest(Refusal, code="invalid_request", category=Category.MALFORMED):
    """A member or query parameter is unknown, duplicate or has the wrong type, or a header is malformed."""


class InvalidCursor(Refusal, code="invalid_cursor", category=Category.MALFORMED):
    """The cursor is not from this list."""


class AuthorizationPending(Refusal, code="authorization_pending", category=Category.MALFORMED):
    """No person has decided about the program yet (RFC 8628, section 3.5)."""


class SlowDown(Refusal, code="slow_down", category=Category.MALFORMED):
    """The program polls too often (RFC 8628, section 3.5)."""


class ExpiredToken(Refusal, code="expired_token", category=Category.MALFORMED):
    """The code of the program is wrong, used or too old (RFC 8628, section 3.5)."""


class AccessDenied(Refusal, code="access_denied", category=Category.MALFORMED):
    """The person refused the program (RFC 8628, section 3.5)."""


class TokenMissing(Refusal, code="token_missing", category=Category.UNAUTHENTICATED):
    """No `Authorization: Bearer …` header."""


class TokenInvalid(Refusal, code="token_invalid", category=Category.UNAUTHENTICATED):
    """The token has a typing error or was never issued."""


class TokenExpired(Refusal, code="token_expired", category=Category.UNAUTHENTICATED):
    """The token's `expires_at` has passed."""


class TokenRevoked(Refusal, code="token_revoked", category=Category.UNAUTHENTICATED):
    """The token was revoked, or its user has left the token's organization."""


class SessionInvalid(Refusal, code="session_invalid", category=Category.UNAUTHENTICATED):
    """The session in the cookie has ended or expired. The response deletes the cookie."""


class SessionRequired(Refusal, code="session_required", category=Category.FORBIDDEN):
    """Only a signed-in browser may do this. A token may not."""


class SignInRequired(Refusal, code="sign_in_required", category=Category.FORBIDDEN):
    """This needs a sign-in within the last ten minutes.

    `details` has `limit_seconds` and `how`, the accepted ways to sign in.
    """


class OriginRefused(Refusal, code="origin_refused", category=Category.FORBIDDEN):
    """A browser sent the request from a page of another site, or without its origin."""


class InsufficientScope(Refusal, code="insufficient_scope", category=Category.FORBIDDEN):
    """The token lacks the scope `details.required_scope`."""


class InsufficientRole(Refusal, code="insufficient_role", category=Category.FORBIDDEN):
    """The user's role in the organization, `details.role`, lacks the scope `details.required_scope`."""


class TokenRestricted(Refusal, code="token_restricted", category=Category.FORBIDDEN):
    """The token is restricted to other networks, names or records, or would exceed its `daily_credits`.

    `details.restriction` names the restriction.
    """


class AccountSuspended(Refusal, code="account_suspended", category=Category.FORBIDDEN):
    """The user is suspended, and can only read data and open tickets."""


class PaymentConfirmationRequired(Refusal, code="payment_confirmation_required", category=Category.PAYMENT):
    """The operation costs credits and `confirm` is not true. `quote` has the price (spec, part 3, rule 4)."""


class InsufficientCredits(Refusal, code="insufficient_credits", category=Category.PAYMENT):
    """The operation is confirmed, but the balance is too low. `quote.shortfall` is the difference."""


class PriceChanged(Refusal, code="price_changed", category=Category.CONFLICT):
    """The price is above `max_credits`. `quote` has the new price. Nothing was charged."""


class RegistrationModeNotAllowed(Refusal, code="registration_mode_not_allowed", category=Category.FORBIDDEN):
    """The mode is `admin`, is not offered here, does not fit the label's class, or is not open to new
    accounts yet.
    """


class FreeQuotaExceeded(Refusal, code="free_quota_exceeded", category=Category.FORBIDDEN):
    """The user's free quota is used up. `details` has `limit` and `used`."""


class SignUpClosed(Refusal, code="signup_closed", category=Category.FORBIDDEN):
    """The registry takes no sign-ups. The operator invites or adds users."""


class RegistrationClosed(Refusal, code="registration_closed", category=Category.FORBIDDEN):
    """The platform domain takes no registrations, or closes."""


class SubdomainNotFound(Refusal, code="subdomain_not_found", category=Category.MISSING):
    """The user has no such subdomain. If it is in the user's trash, `details` describes it."""


class PlatformDomainNotFound(Refusal, code="platform_domain_not_found", category=Category.MISSING):
    """The platform domain does not exist, or is hidden from the user."""


class TicketNotFound(Refusal, code="ticket_not_found", category=Category.MISSING):
    """The user has no such ticket."""


class TokenNotFound(Refusal, code="token_not_found", category=Category.MISSING):
    """The user has no such token, or it may do more than the token of the request."""


class TransferNotFound(Refusal, code="transfer_not_found", category=Category.MISSING):
    """The user has neither sent nor received such a transfer."""


class OrganizationNotFound(Refusal, code="organization_not_found", category=Category.MISSING):
    """The user has no such organization, or the organization has no such member or invitation."""


class SessionNotFound(Refusal, code="session_not_found", category=Category.MISSING):
    """The user has no such session."""


class PasskeyNotFound(Refusal, code="passkey_not_found", category=Category.MISSING):
    """The user has no such passkey."""


class DeviceNotFound(Refusal, code="device_not_found", category=Category.MISSING):
    """No program waits with this code."""


class NotFound(Refusal, code="not_found", category=Category.MISSING):
    """There is no such object (command line), or no such path (API)."""


class SubdomainUnavailable(Refusal, code="subdomain_unavailable", category=Category.CONFLICT):
    """The name can't be registered now.

    `details.reason` is taken, reserved, in_trash or cooling_off. `details.owned` is true if the user holds
    the name.
    """


class TicketClosed(Refusal, code="ticket_closed", category=Category.CONFLICT):
    """The ticket is closed and takes no replies (spec, part 3, rule 3)."""


class NameserverRequired(Refusal, code="nameserver_required", category=Category.CONFLICT):
    """The name has no nameserver, and a retry or check needs one (spec, part 3, rule 2)."""


class RetryNotAvailable(Refusal, code="retry_not_available", category=Category.CONFLICT):
    """Provisioning has not failed, so it can't be retried (spec, part 3, rule 2)."""


class RenewalNotAvailable(Refusal, code="renewal_not_available", category=Category.CONFLICT):
    """The renewal window is not open, or only the operator renews the name.

    `details` has `opens_at` (null if only the operator renews the name), `expires_at` and `last_renewed_at`.
    """


class RecordsExist(Refusal, code="records_exist", category=Category.CONFLICT):
    """The name has records, so it can't have nameservers. Remove the records first."""


class DelegationExists(Refusal, code="delegation_exists", category=Category.CONFLICT):
    """The name has nameservers, so it can't have records. Remove the nameservers first."""


class RecordsNotAllowed(Refusal, code="records_not_allowed", category=Category.FORBIDDEN):
    """The platform domain accepts no records. Names that have records keep them."""


class SubdomainSuspended(Refusal, code="subdomain_suspended", category=Category.CONFLICT):
    """The operator suspended the name. The message has the reason."""


class TransferPending(Refusal, code="transfer_pending", category=Category.CONFLICT):
    """The name is offered already, by the transfer `details.transfer_id`."""


class Conflict(Refusal, code="conflict", category=Category.CONFLICT):
    """The state of the object does not allow this. The message names the state."""


class ValidationFailed(Refusal, code="validation_failed", category=Category.INVALID):
    """Fields are missing or have invalid values of the right type. `errors` lists them."""


class DelegationBroken(Refusal, code="delegation_broken", category=Category.INVALID):
    """The platform domain requires working delegations, and no nameserver works.

    `details.findings` has the codes.
    """


class RateLimited(Refusal, code="rate_limited", category=Category.LIMITED):
    """Too many requests of a class, changes of a name, or concurrent requests.

    `Retry-After` says when to try again.
    """


class Unavailable(Refusal, code="unavailable", category=Category.UNAVAILABLE):
    """The database can't be reached or written now, too many requests query the name servers, or there are
    too many connections.

    Nothing was changed.
    """


class FilesChanged(Unavailable):
    """The files of the SQLite database were changed while a process had it open, so the process has ended."""


class ClockImplausible(Refusal, code="clock_implausible", category=Category.UNAVAILABLE):
    """The clock is more than 400 days ahead of the last sweep, or more than a day behind, so dates could be
    wrong.
    """


class MethodNotAllowed(Refusal, code="method_not_allowed", category=Category.MALFORMED):
    """The path doesn't take this method; `Allow` and `details.allow` list the methods that it takes."""


class PayloadTooLarge(Refusal, code="payload_too_large", category=Category.MALFORMED):
    """The body is longer than 64 KiB; `details.limit_bytes` has the limit."""


class UriTooLong(InvalidRequest):
    """Path and query are too long: `invalid_request` with status 414."""


class UnsupportedMediaType(Refusal, code="unsupported_media_type", category=Category.MALFORMED):
    """The body is not declared as plain `application/json`."""


class IdempotencyKeyReused(Refusal, code="idempotency_key_reused", category=Category.INVALID):
    """The `Idempotency-Key` was used for another request within the last 24 hours."""


class IdempotencyInProgress(Refusal, code="idempotency_in_progress", category=Category.CONFLICT):
    """A request with this `Idempotency-Key` is still running; send it again in a moment."""


class PreconditionFailed(Refusal, code="precondition_failed", category=Category.CONFLICT):
    """`If-Match` doesn't have the current `ETag`: the resource has changed, or the tag is weak."""


class InternalError(Refusal, code="internal_error", category=Category.FAULT):
    """A fault of the service. The log has its details, under the request id."""


def check_one_of(field: str, text: str | None, allowed: Sequence[str]) -> list[FieldError]:
    """Return the error `value_invalid` if a text is not one of the allowed values.

    None means that the field was not given.
    """
    if text is None or text in allowed:
        return []
    return [FieldError(field, "value_invalid", f"Give one of {', '.join(allowed)}.")]


def validation_failed(errors: Sequence[FieldError], omitted: int = 0) -> ValidationFailed:
    """Return the refusal with these wrong fields.

    Its message is about the first field, and says how many fields are wrong.
    """
    first = errors[0]
    sentence = f"{first.field}: {first.message}"
    count = len(errors) + omitted
    if count > 1:
        sentence = f"{count} fields are wrong. The first is {sentence}"
    return ValidationFailed(sentence, errors=errors, errors_omitted=omitted)
