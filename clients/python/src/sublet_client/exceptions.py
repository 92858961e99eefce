"""The errors of a call. Each code of the API has a class of its own, below `ApiError`."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from sublet_client._methods import advice


class SubletError(Exception):
    """Every error of this package."""


class NotReached(SubletError):
    """There was no answer until the deadline. A change may have been made or not: ask for its state.

    Raised at once if there is no connection, and the client had none before: the address is wrong, and no
    change was made.
    """


class UnexpectedAnswer(SubletError):
    """Something answered that isn't this API, or another version of it."""


class NotInTime(SubletError):
    """What was waited for has not happened until the deadline."""


@dataclass(frozen=True, slots=True)
class FieldFault:
    """One wrong field of a request."""

    field: str
    code: str
    message: str


class ApiError(SubletError):
    """The service refused a call, and changed nothing.

    `code` is for programs, `message` is a sentence that a person can act on, `errors` are the wrong fields,
    `details` are members that the code defines, and `request_id` helps the operator to find the request in
    the log. `retry_after_seconds` says when to try again, if the service did. As a text the error has all
    fields, and the method of this client that helps.
    """

    def __init__(
        self,
        *,
        message: str,
        code: str,
        status: int,
        request_id: str,
        errors: Sequence[Mapping[str, str]] = (),
        details: Mapping[str, Any] | None = None,
        quote: Mapping[str, Any] | None = None,
        retry_after_seconds: float | None = None,
    ) -> None:
        self.message, self.code, self.status, self.request_id = message, code, status, request_id
        self.errors = tuple(
            FieldFault(each.get("field", ""), each.get("code", ""), each.get("message", ""))
            for each in errors
        )
        self.details = dict(details or {})
        self.raw_quote = quote
        self.retry_after_seconds = retry_after_seconds
        super().__init__(message)

    def __str__(self) -> str:
        lines = [f"{each.field}: {each.message}" for each in self.errors]
        fields = "".join(f"\n  {each}" for each in lines if each not in self.message)
        hint = advice(self.code, self.details, [(each.field, each.code) for each in self.errors])
        in_python = f"\n  In Python: {hint}" if hint else ""
        return f"{self.message}{fields}{in_python}\n  ({self.code}, request {self.request_id})"
