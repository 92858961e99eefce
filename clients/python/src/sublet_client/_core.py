"""What both clients share: what a call sends, when it is sent again, and what its answer means (no network,
no clock).

`attempts` is a generator. It yields what the client has to do, a `Send` or a `Wait`, and is sent a `Reply`,
or the error that prevented one. So the rules are written and tested once, and each client only knows how to
send and how to wait.
"""

import logging
import random
import secrets
from collections.abc import Callable, Generator, Mapping
from dataclasses import dataclass, field, replace
from email.utils import parsedate_to_datetime
from typing import Any, Generic, TypeVar
from urllib.parse import quote

import msgspec

from sublet_client._errors import BY_CODE, RateLimited
from sublet_client.exceptions import ApiError, NotReached, UnexpectedAnswer

T = TypeVar("T")
BACK_OFF_SECONDS, BACK_OFF_MAX_SECONDS = 0.25, 10.0
RETRIED = frozenset({429, 502, 503, 504})
"""The statuses after which the same request is sent again. 409 is too, with the code
`idempotency_in_progress`.
"""
IN_PROGRESS = "idempotency_in_progress"
LOGGER = logging.getLogger("sublet_client")
_RETRYING = "Retrying %s in %.1f s: %s"


@dataclass(frozen=True, slots=True)
class Call(Generic[T]):
    """One call of an operation. `read` makes its result from the answer.

    `path` is relative to the base URL, or to the root if the operation `is_open` (needs no token). `body` has
    the members to send; None: the operation takes no body. A call that `is_change` gets an `Idempotency-Key`,
    unless it is open.
    """

    operation: str
    method: str
    path: str
    read: Callable[["Reply"], T]
    query: Mapping[str, Any] = field(default_factory=dict[str, Any])
    body: Mapping[str, Any] | None = field(default=None, repr=False)
    headers: Mapping[str, str] = field(default_factory=dict[str, str])
    is_open: bool = False

    @property
    def is_change(self) -> bool:
        """True if the operation may change something."""
        return self.method != "GET"


@dataclass(frozen=True, slots=True)
class Send:
    """A request that the client has to send, and answer with a `Reply` or with the `Exception` that prevented
    one.
    """

    method: str
    url: str
    query: Mapping[str, str]
    headers: Mapping[str, str] = field(repr=False)
    content: bytes | None = field(repr=False)
    timeout_seconds: float


@dataclass(frozen=True, slots=True)
class Wait:
    """A pause that the client has to make."""

    seconds: float


@dataclass(frozen=True, slots=True)
class Reply:
    """The answer to a request. The names of `headers` are in lower case."""

    status: int
    headers: Mapping[str, str]
    content: bytes = field(repr=False)


@dataclass(frozen=True, slots=True)
class Config:
    """Where the service is, and how long a call may take.

    `deadline_seconds` bounds a call with all its attempts, `timeout_seconds` one attempt. A wait for a rate
    limit moves the deadline.
    """

    base_url: str
    token: str | None = field(repr=False)
    deadline_seconds: float
    timeout_seconds: float
    user_agent: str
    request_prefix: str = field(default_factory=lambda: secrets.token_hex(8))
    """The beginning of the request ids of this client. The service answers with the id of the request."""

    @property
    def root(self) -> str:
        """The base URL without its path: where `/auth/` is."""
        scheme, _, rest = self.base_url.partition("://")
        return f"{scheme}://{rest.partition('/')[0]}"


class _Refusal(msgspec.Struct, frozen=True):
    """The body of a refusal of this API, also of an older registry."""

    error: str
    message: str
    request_id: str = ""
    errors: tuple[dict[str, Any], ...] | None = None
    details: dict[str, Any] | None = None
    quote: dict[str, Any] | None = None


Attempts = Generator[Send | Wait, Reply | Exception | None, T]


def attempts(
    call: Call[T], config: Config, clock: Callable[[], float], jitter: Callable[[], float] = random.random
) -> Attempts[T]:
    """Send a call until it has an answer that counts, and return the result.

    A request that may have been done already is sent again only with its `Idempotency-Key`, under which it is
    done once. `Retry-After` is respected; other pauses double from a quarter of a second up to ten seconds,
    less a random part.

    Raises, when it ends:
        ApiError: the service refused (the class is that of the code).
        UnexpectedAnswer: the answer isn't one of this API.
        NotReached: there was no answer until the deadline; the change may have been made or not.
        ValueError: a header that was given can't be sent; it isn't in the message.
    """
    until = clock() + config.deadline_seconds
    request = _request(call, config)
    number = 0
    while True:
        left = until - clock()
        request_id = f"{config.request_prefix}.{secrets.token_hex(8)}"
        request = replace(
            request,
            headers={**request.headers, "x-request-id": request_id},
            timeout_seconds=max(0.001, min(config.timeout_seconds, left)),
        )
        reply = yield request
        assert reply is not None  # noqa: S101 - the drivers answer each Send
        if isinstance(reply, Reply) and _is_of_another(reply, request_id, config):
            reply = ConnectionError("the answer is that of another request")
            # What else is left on the connection must not be read either.
            request = replace(request, headers={**request.headers, "connection": "close"})
        failure = _failure(config, reply)
        if failure is None:
            assert isinstance(reply, Reply)  # noqa: S101 - else there is a failure
            try:
                return call.read(reply)
            except msgspec.MsgspecError as error:
                raise UnexpectedAnswer(
                    f"{config.base_url} answered, but not as this API does: {error}. Check the address, or "
                    "update the client."
                ) from error
        pause = _pause(call, failure, reply, number, jitter())
        if pause is None or clock() + pause >= until:
            raise failure
        if isinstance(failure, RateLimited):
            until += pause  # other calls may use up the next minute before this one
        number += 1
        LOGGER.info(_RETRYING, call.operation, pause, failure.args[0])
        yield Wait(pause)


def no_answer(config: Config, reason: Exception) -> NotReached:
    """Return the error for a request without an answer."""
    why = str(reason).rstrip(".") or type(reason).__name__
    if "WRONG_VERSION_NUMBER" in why:  # of OpenSSL
        why = "it speaks no TLS there, so perhaps http instead of https"
    return NotReached(
        f"{config.root} gave no answer: {why}. Check the address and the network, and try again."
    )


def path_of(template: str, **parts: object) -> str:
    """Return a path with its parameters, percent-encoded.

    Raises:
        ValueError: a parameter would lead to another path (RFC 3986, section 5.2.4).
    """
    for name, value in parts.items():
        if str(value) in ("", ".", "..") or "/" in str(value):
            raise ValueError(f"The {name} `{value}` is empty, only dots, or has a slash. Check it.")
    return template.format(**{name: quote(str(value), safe="") for name, value in parts.items()})


def given(**members: object) -> dict[str, Any]:
    """Return the members that were given: None and UNSET mean that one is left out.

    `NULL` stands for JSON's null.
    """
    return {
        name: None if value is NULL else value
        for name, value in members.items()
        if value is not None and value is not msgspec.UNSET
    }


class _Null:
    def __repr__(self) -> str:
        return "NULL"


NULL = _Null()


def nullable(value: object) -> object:
    """Return a member that may be null: UNSET stays, and None is sent as null."""
    return NULL if value is None else value


def _request(call: Call[T], config: Config) -> Send:
    for name, value in call.headers.items():
        if not (value.isascii() and value.isprintable() and value == value.strip()):
            raise ValueError(
                f"The value of {name} has characters that no header has. Use printable ASCII without "
                "spaces around it."
            )
    headers = {"accept": "application/json", "user-agent": config.user_agent, **call.headers}
    content = None
    if call.is_change:
        content = msgspec.json.encode(call.body or {})
        headers["content-type"] = "application/json"
    if not call.is_open:
        if config.token is not None:
            headers["authorization"] = f"Bearer {config.token}"
        if call.is_change:
            headers.setdefault("idempotency-key", secrets.token_hex(16))
    return Send(
        call.method,
        (config.root if call.is_open else config.base_url) + call.path,
        {name: _text(value) for name, value in call.query.items()},
        headers,
        content,
        config.timeout_seconds,
    )


def _is_of_another(reply: Reply, request_id: str, config: Config) -> bool:
    """True if an answer is that of another request of this client: a proxy has sent one twice.

    Ids that a proxy made don't count.
    """
    answered = reply.headers.get("x-request-id", request_id)
    return answered != request_id and answered.startswith(f"{config.request_prefix}.")


def _text(value: object) -> str:
    if isinstance(value, bool):
        return str(value).lower()
    return value if isinstance(value, str) else msgspec.json.encode(value).decode().strip('"')


def _failure(config: Config, reply: Reply | Exception) -> Exception | None:
    """Return why a reply is no answer that counts, or None if it is one."""
    if isinstance(reply, Exception):
        failure = no_answer(config, reply)
        failure.__cause__ = reply
        return failure
    if 200 <= reply.status < 300:
        return None
    try:
        refusal = msgspec.json.decode(reply.content, type=_Refusal)
    except msgspec.MsgspecError:
        advice = "Try again later" if reply.status in RETRIED else "Check the address"
        if 300 <= reply.status < 400 and (target := reply.headers.get("location")):
            advice = f"Check the address: it redirects to {target[:200]}"
        return UnexpectedAnswer(
            f"{config.base_url} answered with the status {reply.status}, and not as this API does. {advice}."
        )
    return BY_CODE.get(refusal.error, ApiError)(
        message=refusal.message,
        code=refusal.error,
        status=reply.status,
        request_id=refusal.request_id,
        errors=refusal.errors or (),
        details=refusal.details,
        quote=refusal.quote,
        retry_after_seconds=_retry_after(reply),
    )


def _pause(
    call: Call[T], failure: Exception, reply: Reply | Exception, number: int, jitter: float
) -> float | None:
    """Return how long to wait before the next attempt, or None if there must be none."""
    if isinstance(reply, Exception):
        if call.is_change and call.is_open:
            return None  # it may have been done, and has no key
    elif reply.status not in RETRIED and getattr(failure, "code", "") != IN_PROGRESS:
        return None
    asked = _retry_after(reply) if isinstance(reply, Reply) else None
    back_off: float = min(BACK_OFF_MAX_SECONDS, BACK_OFF_SECONDS * 2**number) * (1 - jitter / 2)
    return back_off if asked is None else asked + jitter * min(1.0, asked)


def _retry_after(reply: Reply) -> float | None:
    """Return the seconds of `Retry-After` (RFC 9110, section 10.2.3), also if it is a
    date; None without it.
    """
    value = reply.headers.get("retry-after")
    if value is None:
        return None
    if value.isascii() and value.isdigit():
        return float(value)
    try:
        return max(
            0.0, (parsedate_to_datetime(value) - parsedate_to_datetime(reply.headers["date"])).total_seconds()
        )
    except (ValueError, TypeError, KeyError):
        return None
