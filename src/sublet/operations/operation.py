"""How an operation of the API is declared: once, at its function (docs/architecture.md), with the gate that a
session has to pass (docs/gates.md).

The annotations of the function have the Structs of body, query and answer. Its docstring is the operation's
documentation. The router, the OpenAPI document, the console, the client generator and the matrices of the
tests read the declarations.

Tokens pass every gate, because each way to a token has one: a session creates, changes and rotates tokens
behind this gate, the first token of an account follows the proof of its address, and the operator issues the
others. A token that a token creates may do no more than its creator.
"""

import inspect
import types
import typing
from collections.abc import Callable, Iterator, Mapping
from functools import cached_property
from typing import Any, NamedTuple, TypeVar

import msgspec

from sublet import errors
from sublet.errors import Refusal
from sublet.operations.call import OpenCall
from sublet.operations.rate_limiter import ADDRESS, READ, WRITE
from sublet.operations.shapes import Body, PageQuery

ALWAYS, FOR_OTHER_SESSIONS, IF_PAID, NEVER = "always", "another session", "credits", "never"
"""When a gate is checked: before the body is read, and before it unless the path names the session of the
request, where the price is known, not at all.
"""


class Gate(NamedTuple):
    """When the gate of an operation is checked (`ALWAYS` …), and why then.

    With `any_method`, a sign-in by mail is enough despite passkeys.
    """

    checked: str
    reason: str
    any_method: bool = False

    @property
    def is_before_body(self) -> bool:
        """True if the gate is checked after scope and role, and before the body is read."""
        return self.checked in (ALWAYS, FOR_OTHER_SESSIONS)


def sensitive(reason: str, *, checked: str = ALWAYS, any_method: bool = False) -> Gate:
    """Return the gate of an operation that a stolen session must not send alone.

    `reason` names the damage.
    """
    return Gate(checked, reason, any_method)


def not_sensitive(reason: str) -> Gate:
    """Return the gate of an operation that needs no recent sign-in. `reason` says why not."""
    return Gate(NEVER, reason)


BASE_PATH = "/api/v1"
"""The path of `{base_url}` (spec, part 9: one base path). Every operation under it needs a credential and
answers JSON.
"""
DOCS_PATH, OPENAPI_PATH = "/docs", "/openapi.json"
"""The paths of the documentation, which are outside of `BASE_PATH` because they need no token."""
WRITE_METHODS = ("POST", "PUT", "PATCH", "DELETE")

Function = Callable[..., Any]
"""The function of an operation. It has one of two forms:

- `def get_ticket(tx: Tx, call: Call[None, None]) -> TicketAnswer` reads in one transaction, on a thread. It
  may also return an `Answer`.
- `async def open_ticket(call: Call[TicketBody, None]) -> Answer[TicketAnswer]` writes, waits, or asks the
  network.

If its surface is open, it takes an `OpenCall`.
"""
FunctionT = TypeVar("FunctionT", bound=Function)
Refusals = tuple[type[Refusal], ...]


class Surface(msgspec.Struct, frozen=True):
    """What a group of operations has in common: the prefix of their paths, whether they need no credential,
    and the form of their answers.

    `headers` are those of each answer. `describe_refusal` returns the body of a refusal, from its status and
    message; None: the envelope of docs/errors.md. A surface that `ignores_query` takes query parameters that
    it doesn't know.
    """

    prefix: str
    is_open: bool = False
    media_type: str = "application/json"
    headers: Mapping[str, str] = msgspec.field(default_factory=dict)
    describe_refusal: Callable[[int, str], msgspec.Struct] | None = None
    ignores_query: bool = False


API = Surface(BASE_PATH)
AUTH = Surface("", is_open=True)
"""The operations under `/auth/`, outside of the base path, because the spec (part 1)
demands a token there.
"""


class TextForm(NamedTuple):
    """A media type that stands for a JSON object with one member, a text.

    A request may send the text instead of the object. The answer to a GET is the text, unless `Accept` names
    JSON.
    """

    media_type: str
    member: str


class Parameter(NamedTuple):
    """The documentation of a path parameter."""

    description: str
    example: str


class Operation(msgspec.Struct, frozen=True, kw_only=True, dict=True):
    """One method on one path.

    `path` has `{parameters}`, and is relative to the prefix of its surface. `scope` is the scope that a token
    needs, None if any token will do. An operation that `needs_session` refuses tokens. `body` and `query` are
    the Structs of the request, None if it takes none. `answer` is the Struct of the answer with `status`.
    `refusals` are those of the function, in the order of its checks.
    """

    surface: Surface
    method: str
    path: str
    name: str
    tag: str
    summary: str
    description: str
    function: Function
    answer: type[msgspec.Struct]
    body: type[Body] | None
    query: type[msgspec.Struct] | None
    scope: str | None
    rate_class: str
    refusals: Refusals
    status: int
    needs_session: bool
    example: Mapping[str, Any]
    """An example of the answer, without `ok`."""
    example_body: Mapping[str, Any] | None = None
    parameters: Mapping[str, Parameter] = msgspec.field(default_factory=dict)
    """The documentation of each path parameter, in the order of the path."""
    changes: bool = True
    """False for a POST that only computes an answer, and changes no resource of the user."""
    gate: Gate | None = None
    """Whether a session needs a recent sign-in for the operation. None for a GET."""
    told: str = ""
    """The people who get a mail about the operation, for docs/gates.md."""
    has_etag: bool = False
    """True for GET of a single resource. The answer has an `ETag`, which is compared with `If-None-Match`."""
    text: TextForm | None = None
    """The text that the body, or the answer to a GET, may be instead of JSON."""

    @cached_property
    def is_open(self) -> bool:
        """True if the operation needs no credential."""
        return self.surface.is_open

    @cached_property
    def reads(self) -> bool:
        """True if the function reads in a transaction that its caller begins."""
        return not inspect.iscoroutinefunction(self.function)

    @cached_property
    def full_path(self) -> str:
        """The path relative to the root."""
        return self.surface.prefix + self.path

    @cached_property
    def takes_body(self) -> bool:
        """True if the operation reads a body."""
        return self.method in WRITE_METHODS

    @cached_property
    def takes_idempotency_key(self) -> bool:
        """True if the operation reads `Idempotency-Key`.

        A key belongs to a user, so an open operation reads none.
        """
        return self.takes_body and not self.is_open and self.changes

    @cached_property
    def takes_if_match(self) -> bool:
        """True if the operation compares `If-Match`, which it can refuse with `PreconditionFailed`."""
        return errors.PreconditionFailed in self.refusals


class Operations:
    """The operations of a noun, or of a part of it, in the order of the documentation.

    Its methods are decorators that declare one.

    `parameters` documents the path parameters by name. Each writing method takes `gate`, so that a new
    operation says whether it is sensitive, and `told`, the people who get a mail about it.
    """

    def __init__(self, surface: Surface, tag: str, **parameters: Parameter) -> None:
        self._surface = surface
        self._tag = tag
        self._parameters = parameters
        self._declared: list[Operation] = []

    def __iter__(self) -> Iterator[Operation]:
        return iter(self._declared)

    def get(
        self,
        path: str,
        scope: str | None = None,
        refusals: Refusals = (),
        *,
        example: Mapping[str, Any],
        rate_class: str = READ,
        needs_session: bool = False,
        has_etag: bool = False,
        text: TextForm | None = None,
    ) -> Callable[[FunctionT], FunctionT]:
        """Declare an operation that reads."""
        return self._declare(
            "GET",
            path,
            scope,
            refusals,
            example=example,
            rate_class=rate_class,
            needs_session=needs_session,
            has_etag=has_etag,
            text=text,
        )

    def write(
        self,
        method: str,
        path: str,
        scope: str | None = None,
        refusals: Refusals = (),
        *,
        gate: Gate,
        example: Mapping[str, Any],
        example_body: Mapping[str, Any],
        told: str = "",
        status: int = 200,
        rate_class: str = WRITE,
        needs_session: bool = False,
        changes: bool = True,
        text: TextForm | None = None,
    ) -> Callable[[FunctionT], FunctionT]:
        """Declare an operation that writes, or computes an answer from a body (`changes=False`)."""
        return self._declare(
            method,
            path,
            scope,
            refusals,
            gate=gate,
            example=example,
            example_body=example_body,
            told=told,
            status=status,
            rate_class=rate_class,
            needs_session=needs_session,
            changes=changes,
            text=text,
        )

    def _declare(
        self,
        method: str,
        path: str,
        scope: str | None,
        refusals: Refusals,
        *,
        rate_class: str,
        **declared: Any,
    ) -> Callable[[FunctionT], FunctionT]:
        def declare(function: FunctionT) -> FunctionT:
            body, query, answer = _structs(function)
            summary, _, description = inspect.cleandoc(function.__doc__ or "").partition("\n\n")
            takes_cursor = query is not None and issubclass(query, PageQuery)
            found = Operation(
                surface=self._surface,
                method=method,
                path=path,
                name=function.__name__.removesuffix("_"),
                tag=self._tag,
                summary=" ".join(summary.split()).removesuffix("."),
                description=" ".join(description.split()),
                function=function,
                answer=answer,
                body=body,
                query=query,
                scope=scope,
                rate_class=ADDRESS if self._surface.is_open else rate_class,
                refusals=(errors.InvalidCursor, *refusals) if takes_cursor else refusals,
                parameters={name: each for name, each in self._parameters.items() if f"{{{name}}}" in path},
                **{"status": 200, "needs_session": False, **declared},
            )
            self._declared.append(found)
            return function

        return declare


def _structs(
    function: Function,
) -> tuple[type[Body] | None, type[msgspec.Struct] | None, type[msgspec.Struct]]:
    """Return the Structs of body, query and answer of an operation's function."""
    hints = typing.get_type_hints(function)
    structs = [None if each is types.NoneType else each for each in typing.get_args(hints["call"])]
    query = None if typing.get_origin(hints["call"]) is OpenCall else structs[1]
    answer, *_ = typing.get_args(hints["return"]) or (hints["return"],)
    return structs[0], query, answer


def all_refusals(operation: Operation) -> Refusals:
    """Return every refusal that an operation may answer with, in the order in which they are checked.

    The refusals of an unknown path or method are not included, because they belong to no operation.
    """
    found: list[type[Refusal]] = []
    if not operation.is_open:
        found += [
            errors.TokenMissing,
            errors.TokenInvalid,
            errors.TokenExpired,
            errors.TokenRevoked,
            errors.SessionInvalid,
            errors.OrganizationNotFound,
            errors.AccountSuspended,
            errors.TokenRestricted,
        ]
        if operation.takes_body:
            found.append(errors.OriginRefused)
    found.append(errors.RateLimited)
    if operation.needs_session:
        found.append(errors.SessionRequired)
    if operation.scope is not None:
        found += [errors.InsufficientScope, errors.InsufficientRole]
    if operation.gate is not None and operation.gate.is_before_body:
        found.append(errors.SignInRequired)
    if operation.takes_body:
        found += [errors.UnsupportedMediaType, errors.PayloadTooLarge, errors.InvalidJson]
    found += [errors.InvalidRequest]
    if operation.takes_idempotency_key:
        found += [errors.IdempotencyInProgress, errors.IdempotencyKeyReused]
    found += operation.refusals
    found += [errors.InternalError, errors.Unavailable]
    return tuple(dict.fromkeys(found))
