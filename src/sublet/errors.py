"""Refusals: a class for each error code, in few categories.

A refusal is a correct answer: it says what is wrong and what to do. Raising one inside a verb rolls back the transaction, so
it changes nothing. Every other exception is a fault: logged in full, answered without details. `http/errors.py` maps
categories to statuses and adds the codes that only HTTP has. docs/errors.md lists every code; a test compares it with this.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from enum import Enum
from typing import Any, ClassVar


class Category(Enum):
    """The kind of a refusal, which HTTP maps to a status and the command line to an exit code."""

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
"""Exit codes of commands and processes that fail (docs/cli.md)."""

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
    "exceeds_token": "the token of the request may not do this, so it can't let another token do it",
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
"""Most wrong fields that a refusal lists; a body of 64 KiB can have about ten thousand."""


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
        """True if further errors are only counted."""
        return len(self) >= FIELD_ERRORS_MAX

    def add(self, field: str, code: str, message: str) -> None:
        """Append a wrong field, or only count it if the list is full."""
        if self.is_full():
            self.omitted += 1
        else:
            self.append(FieldError(field, code, message))


class Refusal(Exception):  # noqa: N818 - a refusal is a correct answer, not an error
    """The base of all refusals.

    `message` says what is wrong and what to do; docs/errors.md lists the `details` of each code. `errors` has at most
    `FIELD_ERRORS_MAX` wrong fields, and `details.errors_omitted` counts the others. `quote` is the price of a paid operation.
    `retry_after_seconds` is for LIMITED and UNAVAILABLE.
    """

    code: ClassVar[str]
    category: ClassVar[Category]

    def __init_subclass__(cls, code: str | None = None, category: Category | None = None) -> None:
        """Store the code and category of a class; a subclass of a refusal may inherit both."""
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
    """The body is not one JSON object in UTF-8 within the limits of depth and numbers."""


class InvalidRequest(Refusal, code="invalid_request", category=Category.MALFORMED):
    """A member or query parameter is unknown, duplicate or of the wrong type; or a header is malformed."""


class InvalidCursor(Refusal, code="invalid_cursor", category=Category.MALFORMED):
    """The cursor is not from this list."""


class TokenMissing(Refusal, code="token_missing", category=Category.UNAUTHENTICATED):
    """No `Authorization: Bearer …` header."""


class TokenInvalid(Refusal, code="token_invalid", category=Category.UNAUTHENTICATED):
    """The token has a typing error or was never issued."""


class TokenExpired(Refusal, code="token_expired", category=Category.UNAUTHENTICATED):
    """The token's `expires_at` has passed."""


class TokenRevoked(Refusal, code="token_revoked", category=Category.UNAUTHENTICATED):
    """The token was revoked, or its user has left the organization that it is for."""


class SessionInvalid(Refusal, code="session_invalid", category=Category.UNAUTHENTICATED):
    """The session in the cookie has ended or expired; the answer deletes the cookie."""


class SessionRequired(Refusal, code="session_required", category=Category.FORBIDDEN):
    """Only a browser that is signed in may do this, a token may not."""


class SignInRequired(Refusal, code="sign_in_required", category=Category.FORBIDDEN):
    """This needs a sign-in within the last ten minutes; `details` has `limit_seconds` and `how`, the ways that count."""


class OriginRefused(Refusal, code="origin_refused", category=Category.FORBIDDEN):
    """A browser sent the request from a page of another site, or didn't say from where."""


class InsufficientScope(Refusal, code="insufficient_scope", category=Category.FORBIDDEN):
    """The token lacks a scope; `details.required_scope` names it."""


class InsufficientRole(Refusal, code="insufficient_role", category=Category.FORBIDDEN):
    """The user's role in the organization doesn't allow this; `details.role` is the role, `details.required_scope` the scope that it lacks."""


class TokenRestricted(Refusal, code="token_restricted", category=Category.FORBIDDEN):
    """The token is restricted to other networks or names, or would spend more than its `daily_credits`; `details.restriction` says which."""


class AccountSuspended(Refusal, code="account_suspended", category=Category.FORBIDDEN):
    """A suspended user may read and open tickets, nothing else."""


class PaymentConfirmationRequired(Refusal, code="payment_confirmation_required", category=Category.PAYMENT):
    """Credits are needed and `confirm` is not true; `quote` says what it costs (spec, part 3, rule 4)."""


class InsufficientCredits(Refusal, code="insufficient_credits", category=Category.PAYMENT):
    """Confirmed, but the balance is short; `quote` says by how much."""


class PriceChanged(Refusal, code="price_changed", category=Category.CONFLICT):
    """The price is above `max_credits`; `quote` is a fresh one. Nothing was charged."""


class RegistrationModeNotAllowed(Refusal, code="registration_mode_not_allowed", category=Category.FORBIDDEN):
    """The mode is `admin`, is not offered here, or does not fit the label's class."""


class FreeQuotaExceeded(Refusal, code="free_quota_exceeded", category=Category.FORBIDDEN):
    """All free names of the user's quota are in use; `details` has `limit` and `used`."""


class SignUpClosed(Refusal, code="signup_closed", category=Category.FORBIDDEN):
    """This registry takes no sign-ups: its operator invites users, or adds them."""


class RegistrationClosed(Refusal, code="registration_closed", category=Category.FORBIDDEN):
    """The platform domain takes no new registrations."""


class SubdomainNotFound(Refusal, code="subdomain_not_found", category=Category.MISSING):
    """No such subdomain of this user; for its former owner `details` describes the name in the trash."""


class PlatformDomainNotFound(Refusal, code="platform_domain_not_found", category=Category.MISSING):
    """No such platform domain that this user can see."""


class TicketNotFound(Refusal, code="ticket_not_found", category=Category.MISSING):
    """No such ticket of this user."""


class TokenNotFound(Refusal, code="token_not_found", category=Category.MISSING):
    """No such token of this user, or one that may do more than the token of the request."""


class TransferNotFound(Refusal, code="transfer_not_found", category=Category.MISSING):
    """No such transfer of a name that this user sent, or that is addressed to it."""


class OrganizationNotFound(Refusal, code="organization_not_found", category=Category.MISSING):
    """No such organization of this user, or no such member or invitation in it."""


class SessionNotFound(Refusal, code="session_not_found", category=Category.MISSING):
    """No such session of this user."""


class PasskeyNotFound(Refusal, code="passkey_not_found", category=Category.MISSING):
    """No such passkey of this user."""


class NotFound(Refusal, code="not_found", category=Category.MISSING):
    """No object of the command line, or no path of the API, has this name."""


class SubdomainUnavailable(Refusal, code="subdomain_unavailable", category=Category.CONFLICT):
    """The name can't be registered now.

    `details.reason` is taken, reserved, in_trash or cooling_off; `details.owned` tells whether the asking user holds it.
    """


class TicketClosed(Refusal, code="ticket_closed", category=Category.CONFLICT):
    """A closed ticket cannot be replied to (spec, part 3, rule 3)."""


class NameserverRequired(Refusal, code="nameserver_required", category=Category.CONFLICT):
    """A retry needs nameserver 1 (spec, part 3, rule 2), and a check too."""


class RetryNotAvailable(Refusal, code="retry_not_available", category=Category.CONFLICT):
    """A retry is only possible after a provisioning failure (spec, part 3, rule 2)."""


class RenewalNotAvailable(Refusal, code="renewal_not_available", category=Category.CONFLICT):
    """The renewal window is not open, or only the operator renews the name; `details` has `opens_at` (null then), `expires_at`, `last_renewed_at`."""


class SubdomainSuspended(Refusal, code="subdomain_suspended", category=Category.CONFLICT):
    """The operator suspended the name, for the reason in the message."""


class TransferPending(Refusal, code="transfer_pending", category=Category.CONFLICT):
    """The name is offered to another person already; `details.transfer_id` says by which transfer."""


class Conflict(Refusal, code="conflict", category=Category.CONFLICT):
    """The state of the object does not allow this; the message names the state."""


class ValidationFailed(Refusal, code="validation_failed", category=Category.INVALID):
    """Fields are missing or have invalid values of the right type; `errors` lists them."""


class DelegationBroken(Refusal, code="delegation_broken", category=Category.INVALID):
    """The platform domain requires delegations that work, and no nameserver works; `details.findings` has the codes."""


class RateLimited(Refusal, code="rate_limited", category=Category.LIMITED):
    """Too many requests of this class, changes of this name, or requests of this kind at once; `Retry-After` says when to ask again."""


class Unavailable(Refusal, code="unavailable", category=Category.UNAVAILABLE):
    """The database can't be reached or written, or too many requests query the name servers, now; nothing was changed."""


class FilesChanged(Unavailable):
    """The files of the SQLite database were changed while a process served it, so the process has ended."""


class ClockImplausible(Refusal, code="clock_implausible", category=Category.UNAVAILABLE):
    """The clock is more than 400 days ahead of the newest stored instant, or a day behind it, so it gives no dates."""


def check_one_of(field: str, text: str | None, allowed: Sequence[str]) -> list[FieldError]:
    """Return the error in a field that takes one of a few values: `value_invalid`. None means that it was not given."""
    if text is None or text in allowed:
        return []
    return [FieldError(field, "value_invalid", f"Give one of {', '.join(allowed)}.")]


def validation_failed(errors: Sequence[FieldError], omitted: int = 0) -> ValidationFailed:
    """Return the refusal with these wrong fields. Its message is the first one's, after their number if there are several."""
    first = errors[0]
    sentence = f"{first.field}: {first.message}"
    count = len(errors) + omitted
    if count > 1:
        sentence = f"{count} fields need a change; the first: {sentence}"
    return ValidationFailed(sentence, errors=errors, errors_omitted=omitted)
